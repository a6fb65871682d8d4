"""What meta servers answer, three of them in virtual time (R-REP-5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.errors import (
    CorruptFacts,
    InvalidConfig,
    InvalidRequest,
    NotLeader,
    TopicExists,
    UnknownCall,
)
from penstock.model.ids import TopicId
from penstock.model.limits import META_CHANGE_BYTES_MAX
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Node
from penstock.registry import facts_json
from penstock.registry.facts import (
    CreateTopic,
    ExpireBroker,
    RegisterBroker,
    ReserveProducerIds,
    apply,
)
from penstock.registry.image import BrokerImage
from penstock.registry.metaserver import feed
from penstock.registry.metaserver.entries import Confirm, decode_entry, new_entry
from penstock.replication.replica.transport import TIMING
from tests.kit.registry.facts import broker, ids
from tests.kit.registry.meta_servers import CLUSTER, SESSION_MS, Host, Quorum

ONE, TWO = broker(1), broker(2)


def topic(name: str) -> CreateTopic:
    return CreateTopic(
        name=name, id=TopicId(f"{hash(name) & 0xFFFF:032x}"), settings={}, placement=(ids(1),)
    )


@pytest.fixture
def quorum() -> Quorum:
    """With a cluster of two brokers."""
    made = Quorum()
    made.make_cluster()
    for each in (ONE, TWO):
        made.change(RegisterBroker(broker=each))
    return made


def fetch(seen_version: int = -1, wait_ms: int = 5_000) -> pb.MetaFetchRequest:
    return pb.MetaFetchRequest(cluster_id=CLUSTER, seen_version=seen_version, max_wait_ms=wait_ms)


def keep_alive(
    quorum: Quorum, *brokers: BrokerImage, for_ms: int, beside: Host | None = None
) -> None:
    """Heartbeats of these brokers every second."""
    for _ in range(for_ms // 1_000):
        leader = quorum.leader(beside)
        for each in brokers:
            request = pb.MetaHeartbeatRequest(
                cluster_id=CLUSTER, broker=each.id, directory=each.directory, place=each.place
            )
            leader.call(calls.META_HEARTBEAT, request)
        quorum.run(1_000)


def alive(host: Host) -> list[int]:
    facts = host.machine.state.facts
    assert facts is not None
    return [each.id for each in facts.brokers.values() if each.is_alive]


# --- changes -------------------------------------------------------------------------------------


def test_what_is_answered_holds_on_every_server(quorum: Quorum) -> None:
    response = quorum.change(topic("orders"))
    assert response.version == 3
    quorum.run(1_000)
    states = quorum.states()
    assert states[0] == states[1] == states[2]
    assert list(states[0].facts.topics) == ["orders"]


def test_a_refused_change_leaves_no_trace(quorum: Quorum) -> None:
    quorum.change(topic("orders"))
    facts = quorum.leader().machine.state.facts
    with pytest.raises(TopicExists):
        quorum.change(topic("orders"))
    assert quorum.leader().machine.state.facts is facts


def test_two_changes_at_once_are_decided_one_after_the_other(quorum: Quorum) -> None:
    """The second is refused by what the first did, though neither was committed when they came."""
    leader = quorum.leader()
    both = [
        leader.call(calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(topic("orders"))))
        for _ in range(2)
    ]
    quorum.run_until(lambda: all(each.is_there for each in both))
    assert both[0].error is None
    assert isinstance(both[1].error, TopicExists)


def test_a_change_that_is_sent_again_is_made_once(quorum: Quorum) -> None:
    entry = new_entry(ReserveProducerIds(count=10))
    first = quorum.send_entry(entry)
    assert quorum.send_entry(entry) == first
    assert quorum.change(ReserveProducerIds(count=1)).first_producer_id == 10


def test_a_change_is_known_again_after_its_leader_is_gone(quorum: Quorum) -> None:
    entry = new_entry(ReserveProducerIds(count=10))
    leader = quorum.leader()
    first = quorum.send_entry(entry, leader)
    leader.crash()
    assert quorum.send_entry(entry) == first
    assert quorum.change(ReserveProducerIds(count=1)).first_producer_id == 10


@pytest.mark.parametrize("entry", [b"", b"{}", b"[" * 10_000, b'{"format":1,"id":7,"kind":"x"}'])
def test_what_is_no_change_is_refused_before_it_is_written(quorum: Quorum, entry: bytes) -> None:
    leader = quorum.leader()
    end_offset = leader.machine.replica.log.next_offset
    answer = leader.call(calls.META_CHANGE, pb.MetaChangeRequest(entry=entry))
    assert isinstance(answer.error, CorruptFacts)
    assert leader.machine.replica.log.next_offset == end_offset


def test_a_change_that_is_too_large_is_refused(quorum: Quorum) -> None:
    entry = bytes(META_CHANGE_BYTES_MAX + 1)
    answer = quorum.leader().call(calls.META_CHANGE, pb.MetaChangeRequest(entry=entry))
    assert isinstance(answer.error, InvalidRequest)
    with pytest.raises(InvalidRequest, match="nothing to confirm"):
        quorum.change(Confirm())


def test_before_there_is_a_cluster_nothing_can_be_changed() -> None:
    quorum = Quorum()
    with pytest.raises(InvalidRequest, match="no cluster yet"):
        quorum.change(ReserveProducerIds(count=1))
    answer = quorum.ask(calls.META_FETCH, pb.MetaFetchRequest(seen_version=-1))
    assert (answer.response.version, answer.given) == (-1, b"")


def test_the_first_who_makes_a_cluster_names_it(quorum: Quorum) -> None:
    quorum.make_cluster()
    facts = quorum.leader().machine.state.facts
    assert facts is not None
    assert (facts.cluster_id, facts.version) == (CLUSTER, 2)


def test_a_broker_of_another_cluster_is_refused(quorum: Quorum) -> None:
    for call, request in (
        (calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(topic("orders")))),
        (calls.META_FETCH, fetch()),
        (calls.META_HEARTBEAT, pb.MetaHeartbeatRequest(broker=1)),
    ):
        request.cluster_id = "another"
        answer = quorum.ask(call, request)
        assert isinstance(answer.error, InvalidConfig)
        assert "keep the cluster cluster, and the broker belongs to another" in str(answer.error)


def test_a_lone_meta_server_serves_too() -> None:
    quorum = Quorum(1)
    quorum.make_cluster()
    quorum.change(RegisterBroker(broker=ONE))
    quorum.change(topic("orders"))
    assert quorum.beat(ONE).is_controller
    host = quorum.leader()
    host.crash()
    host.start()
    with pytest.raises(TopicExists):
        quorum.change(topic("orders"))


# --- who leads -----------------------------------------------------------------------------------


def test_who_does_not_lead_says_who_does(quorum: Quorum) -> None:
    quorum.run(1_000)
    leader = quorum.leader()
    follower = next(host for host in quorum.hosts.values() if host is not leader)
    for call, request in (
        (calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(topic("orders")))),
        (calls.META_FETCH, fetch()),
        (calls.META_HEARTBEAT, pb.MetaHeartbeatRequest(broker=1)),
    ):
        error = follower.call(call, request).error
        assert isinstance(error, NotLeader)
        number = leader.node.broker
        assert f"meta server {number} at 127.0.0.1:{7000 + number} leads" in str(error)
    response = follower.call(calls.META_LEADER, pb.MetaLeaderRequest()).response
    assert response.leader == leader.node.broker
    assert response.address == f"127.0.0.1:{7000 + leader.node.broker}"
    assert response.term > 0
    assert not response.voters, "only who leads knows how far they are"
    told = leader.call(calls.META_LEADER, pb.MetaLeaderRequest()).response
    assert [voter.id for voter in told.voters] == sorted(node.broker for node in quorum.hosts)
    assert {voter.end_offset for voter in told.voters} == {told.commit_offset}
    unknown = follower.call(calls.PRODUCE, pb.ProduceRequest()).error
    assert isinstance(unknown, UnknownCall)


def test_before_anybody_leads_nobody_is_named() -> None:
    host = Quorum().hosts[Node(1, 0)]
    assert host.call(calls.META_LEADER, pb.MetaLeaderRequest()).response.leader == -1
    answer = host.call(calls.META_FETCH, fetch())
    assert "No meta server leads" in str(answer.error)


def test_a_leader_that_is_cut_off_answers_nothing_it_cannot_prove(quorum: Quorum) -> None:
    quorum.run(1_000)
    old = quorum.leader()
    quorum.cut_off(old)
    asked = [
        old.call(calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(topic("orders")))),
        old.call(calls.META_FETCH, fetch()),
        old.call(calls.META_FETCH, fetch(seen_version=2, wait_ms=30_000)),
        old.call(
            calls.META_HEARTBEAT,
            pb.MetaHeartbeatRequest(broker=1, directory=ONE.directory, place=ONE.place),
        ),
    ]
    quorum.run(3 * TIMING.election_ms)
    assert all(isinstance(each.error, NotLeader) for each in asked)
    quorum.change(topic("events"), quorum.leader(beside=old))
    quorum.cut.clear()
    quorum.run(2_000)
    states = quorum.states()
    assert states[0] == states[1] == states[2]
    assert list(states[0].facts.topics) == ["events"]


def test_a_leader_that_stood_still_serves_nothing_stale(quorum: Quorum) -> None:
    """Its process was stopped, others went on, and what waits for it is read before it can know."""
    quorum.run(1_000)
    old = quorum.leader()
    old.stop()
    quorum.run(100)
    asked = [
        old.call(calls.META_FETCH, fetch()),
        old.call(
            calls.META_HEARTBEAT,
            pb.MetaHeartbeatRequest(broker=1, directory=ONE.directory, place=ONE.place),
        ),
        old.call(calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(topic("lost")))),
    ]
    new = quorum.leader(beside=old)
    quorum.change(topic("orders"), new)
    old.go_on()
    quorum.run(1)
    assert not any(each.response for each in asked)
    quorum.run(3_000)
    assert all(isinstance(each.error, NotLeader) for each in asked)
    assert old.machine.state.version == new.machine.state.version


# --- news ----------------------------------------------------------------------------------------


def test_who_has_nothing_gets_everything_and_then_what_is_new(quorum: Quorum) -> None:
    answer = quorum.ask(calls.META_FETCH, fetch())
    facts = facts_json.decode_facts(answer.given, "facts")
    assert answer.response.is_whole
    assert (answer.response.version, answer.response.controller) == (2, 1)
    waiting = quorum.leader().call(calls.META_FETCH, fetch(2))
    quorum.run(100)
    assert not waiting.is_there
    quorum.change(topic("orders"))
    quorum.run_until(lambda: waiting.is_there)
    assert (waiting.response.version, waiting.given) == (3, b"")
    for entry in waiting.response.entries:
        action = decode_entry(entry, "entry").action
        assert isinstance(action, CreateTopic)
        facts = apply(facts, action)
    assert facts == quorum.leader().machine.state.facts


def test_a_thousand_topics_do_not_travel_with_each_change(quorum: Quorum) -> None:
    leader = quorum.leader()
    creations = [
        leader.call(calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(creation)))
        for number in range(1_000)
        for creation in (replace(topic(f"t{number}"), id=TopicId(f"{number:032x}")),)
    ]
    quorum.run_until(lambda: all(each.is_there for each in creations[-1:]))
    whole = quorum.ask(calls.META_FETCH, fetch())
    waiting = quorum.leader().call(calls.META_FETCH, fetch(whole.response.version))
    quorum.change(topic("orders"))
    quorum.run_until(lambda: waiting.is_there)
    assert len(waiting.response.SerializeToString()) < 500 < len(whole.given) / 100


def test_who_waits_in_vain_is_told_so(quorum: Quorum) -> None:
    waiting = quorum.leader().call(calls.META_FETCH, fetch(2, wait_ms=2_000))
    quorum.run(1_900)
    assert not waiting.is_there
    quorum.run_until(lambda: waiting.is_there, 1_000)
    assert (waiting.response.version, list(waiting.response.entries)) == (2, [])


def test_who_is_too_far_behind_gets_everything(
    quorum: Quorum, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "META_FEED_CHANGES_MAX", 20)
    for _ in range(21):
        quorum.change(ReserveProducerIds(count=1))
    late = quorum.ask(calls.META_FETCH, fetch(2))
    assert late.response.is_whole
    one_behind = quorum.ask(calls.META_FETCH, fetch(late.response.version - 1))
    assert len(one_behind.response.entries) == 1


def test_a_server_that_stops_sends_everybody_away(quorum: Quorum) -> None:
    leader = quorum.leader()
    waiting = leader.call(calls.META_FETCH, fetch(2, wait_ms=30_000))
    assert leader.service is not None
    leader.service.begin_closing()
    assert "stopping" in str(waiting.error)
    assert "stopping" in str(leader.call(calls.META_FETCH, fetch()).error)


# --- brokers -------------------------------------------------------------------------------------


def test_a_silent_broker_is_dead_after_its_sessions_time(quorum: Quorum) -> None:
    keep_alive(quorum, ONE, TWO, for_ms=3_000)
    keep_alive(quorum, TWO, for_ms=SESSION_MS - 2_000)
    assert alive(quorum.leader()) == [1, 2]
    keep_alive(quorum, TWO, for_ms=2_000)
    assert alive(quorum.leader()) == [2]
    response = quorum.beat(ONE)
    assert not response.is_registered
    assert not response.is_controller
    quorum.change(RegisterBroker(broker=ONE))
    assert quorum.beat(ONE).is_registered


def test_a_new_leader_gives_everybody_a_full_session(quorum: Quorum) -> None:
    keep_alive(quorum, TWO, for_ms=SESSION_MS - 2_000)
    old = quorum.leader()
    old.crash()
    new = quorum.leader()
    quorum.run(SESSION_MS - 1_000)
    assert alive(new) == [1, 2]
    quorum.run(2_000)
    assert alive(new) == []


def test_a_leader_that_stood_still_blames_nobody_for_it() -> None:
    """Nobody could take over, so it leads on; what the brokers said waits to be read."""
    quorum = Quorum(1)
    quorum.make_cluster()
    quorum.change(RegisterBroker(broker=ONE))
    host = quorum.leader()
    host.stop()
    quorum.run(10 * SESSION_MS)
    host.go_on()
    quorum.run(SESSION_MS - 1_000)
    assert alive(host) == [1]
    quorum.run(2_000)
    assert alive(host) == []


def test_the_controller_stays_until_it_is_gone(quorum: Quorum) -> None:
    zero = broker(0)
    quorum.change(RegisterBroker(broker=zero))
    assert quorum.beat(ONE).is_controller, "though another has a lower id"
    assert not quorum.beat(zero).is_controller
    quorum.leader().crash()
    assert quorum.beat(ONE).is_controller
    response = quorum.change(ExpireBroker(node=ONE.node))
    assert response.controller == 0
    assert not quorum.beat(ONE).is_controller
    assert quorum.beat(zero).is_controller
    quorum.change(RegisterBroker(broker=ONE))
    assert not quorum.beat(ONE).is_controller
    quorum.change(ExpireBroker(node=zero.node))
    quorum.change(ExpireBroker(node=TWO.node))
    assert quorum.change(ExpireBroker(node=ONE.node)).controller == -1


def test_an_id_that_is_alive_with_another_folder_is_refused(quorum: Quorum) -> None:
    wiped = broker(1, directory=7)
    with pytest.raises(InvalidConfig, match="broker id 1 is in use"):
        quorum.change(RegisterBroker(broker=wiped))
    assert not quorum.beat(wiped).is_registered, "and its heartbeats are not the other's"


def test_a_copy_of_a_folder_is_not_taken_for_the_broker_it_was_copied_from(
    quorum: Quorum,
) -> None:
    """R-REP-5: until the other is dead, and then the other is not taken for it."""
    copy = broker(1, place=7)
    with pytest.raises(InvalidConfig, match="this one has a copy of it"):
        quorum.change(RegisterBroker(broker=copy))
    assert not quorum.beat(copy).is_registered
    assert quorum.beat(ONE).is_registered
    quorum.change(ExpireBroker(node=ONE.node))
    quorum.change(RegisterBroker(broker=copy))
    assert quorum.beat(copy).is_registered
    assert not quorum.beat(ONE).is_registered


def test_heartbeats_of_one_time_share_an_entry(quorum: Quorum) -> None:
    leader = quorum.leader()
    before = leader.machine.replica.log.next_offset
    beats = [
        leader.call(
            calls.META_HEARTBEAT,
            pb.MetaHeartbeatRequest(broker=each.id, directory=each.directory, place=each.place),
        )
        for each in (ONE, TWO) * 50
    ]
    quorum.run_until(lambda: all(each.is_there for each in beats))
    assert leader.machine.replica.log.next_offset == before + 1
    assert all(each.response.is_registered for each in beats)
    assert beats[0].response.session_timeout_ms == SESSION_MS
