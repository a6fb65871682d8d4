"""A few brokers with copies of a partition, in virtual time: elections, claims, time, parcels."""

from __future__ import annotations

import errno

from penstock.model.errors import NotEnoughReplicas, NotEnoughReplicasAfterAppend, NotLeader
from penstock.model.ids import PartitionId, TopicId
from penstock.model.limits import PARCEL_BYTES_MAX
from penstock.model.topic_config import TopicConfig
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import CampaignRequest, VoteRequest
from penstock.records import build_batch
from penstock.records.header import read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.parcels.wire import encode
from penstock.replication.peers.claims import HeardClaims
from penstock.replication.peers.replicas import TICK_MS, Replicas
from penstock.replication.replica.transport import TIMING
from tests.kit.replication.company import Company
from tests.kit.simulation.clusters.process import Process


def test_what_the_leader_takes_everybody_has_and_knows_to_be_committed() -> None:
    """R-REP-1, R-REP-2."""
    company = Company()
    leader = company.leader()
    values = [b"%d" % number for number in range(20)]
    company.propose(leader, *values)
    company.run(1_000)
    assert len(company.high_watermarks()) == 1
    logs = [company.stored_bytes(machine) for machine in company.machines]
    assert logs[0] == logs[1] == logs[2]
    assert company.values(leader) == values


def test_one_heartbeat_for_each_pair_and_tick_and_nothing_else_when_idle() -> None:
    """An idle partition costs nothing but its part of that."""
    company = Company()
    company.leader()
    company.run(2_000)
    terms = company.terms_led()
    before = [company.replicas(machine).heartbeats_sent for machine in company.machines]
    parcels_before = company.cluster.network.parcels
    ticks = 100
    company.run(ticks * TICK_MS)
    sent = [
        company.replicas(machine).heartbeats_sent - count
        for machine, count in zip(company.machines, before, strict=True)
    ]
    assert sent == [ticks * 2] * 3
    parcels = company.cluster.network.parcels - parcels_before
    assert parcels == sum(sent), "no message but the heartbeats"
    assert company.terms_led() == terms, "and that is enough to keep the leader"


def test_everybody_knows_who_leads_also_without_a_copy() -> None:
    company = Company(brokers=4, voters=3)
    leader = company.leader()
    company.run(500)
    since_ms = company.cluster.timeline.now_ms - TIMING.election_ms
    for machine in company.machines:
        known = company.replicas(machine).leader(company.partition, since_ms)
        assert known is not None
        assert known[:2] == (leader.node, company.term(leader))
        assert known.told.in_sync == known.told.membership.voters
        assert known.told.is_settled
    company.cut_off(leader)
    company.run(5_000)
    successor = next(m for m in company.machines if m is not leader and company.leads(m))
    since_ms = company.cluster.timeline.now_ms - TIMING.election_ms
    claimed = company.replicas(company.machines[3]).leader(company.partition, since_ms)
    assert claimed is not None
    assert claimed[:2] == (successor.node, company.term(successor))
    assert leader.node not in claimed.told.in_sync


def test_a_leader_that_is_cut_off_gives_up_and_follows_when_it_is_back() -> None:
    company = Company()
    leader = company.leader()
    company.cut_off(leader)
    company.propose(leader, b"one")
    company.run(5_000)
    assert not company.leads(leader)
    company.cluster.network.mend()
    company.propose(company.leader(), b"two")
    company.run(3_000)
    assert len(company.high_watermarks()) == 1
    assert company.values(leader) == [b"two"], "what only the old leader had was cut"


def test_a_leader_whose_connections_ended_is_replaced_at_once() -> None:
    """A process that died is not waited for like one that is silent. Of those who find out, one is
    the first to campaign: where chance makes it two, their votes are split, and it takes longer."""
    company = Company()
    leader = company.leader()
    company.run(500)
    company.cut_off(leader)
    others = [machine for machine in company.machines if machine is not leader]
    for machine, delay_ms in zip(others, (0, TIMING.election_ms), strict=True):
        company.set_delay(machine, delay_ms)
        now_ms = company.cluster.timeline.now_ms
        company.replicas(machine).suspect_peer(leader.node, now_ms, TIMING.election_ms)
    company.run(TIMING.election_ms - 100)
    assert company.leads(others[0])


def test_a_leader_that_is_still_heard_is_not_replaced_for_a_connection_that_ended() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    terms = company.terms_led()
    suspicious = next(machine for machine in company.machines if machine is not leader)
    now_ms = company.cluster.timeline.now_ms
    company.replicas(suspicious).suspect_peer(leader.node, now_ms, TIMING.election_ms)
    company.run(3_000)
    assert company.terms_led() == terms


def test_an_old_claim_is_disputed_until_it_is_given_up() -> None:
    """A leader that hears nobody but whom it cannot tell from followers of its own."""
    company = Company()
    leader = company.leader()
    company.run(500)
    others = [machine for machine in company.machines if machine is not leader]
    # It still hears that one of them is alive, but no answers: those are lost.
    company.cut_off(leader)
    company.run(5_000)
    successor = company.leader()
    mute = next(machine for machine in others if machine is not successor)
    company.cluster.network.cuts = {
        (leader.broker, successor.broker),
        (successor.broker, leader.broker),
        (leader.broker, mute.broker),
    }
    company.run(5_000)
    assert company.term(leader) == company.term(successor)
    assert company.leads(successor)
    assert not company.leads(leader)


def test_a_heartbeat_that_was_lost_costs_nothing() -> None:
    company = Company()
    leader = company.leader()
    company.run(1_000)
    company.cluster.network.loss = 0.2
    for number in range(10):
        company.propose(leader, b"%d" % number)
        company.run(1_000)
    company.cluster.network.loss = 0.0
    company.run(3_000)
    assert len(company.high_watermarks()) == 1
    assert len(company.terms_led()) <= 3, "some loss does not depose leaders all the time"


def test_what_is_meant_for_a_folder_that_was_lost_is_not_taken() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    stranger = next(machine for machine in company.machines if machine is not leader)
    heard = company.replicas(stranger)._heard[leader.node]
    heard_ms = heard.heard_ms
    old = Node(stranger.broker, 99)
    heartbeat = company.replicas(leader)._own.heartbeat(stranger.node, needs_whole=False)
    envelope, _ = encode(Parcel(sender=leader.node, receiver=old, heartbeat=heartbeat))
    stranger.deliver(envelope, b"")
    assert heard.heard_ms == heard_ms


class Post:
    """A transport that keeps what it was given."""

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []

    def send(self, parcel: Parcel) -> None:
        self.parcels.append(parcel)


def test_all_that_is_said_in_a_turn_goes_to_each_peer_at_once() -> None:
    post, driver = Post(), Driver()
    me, other, third = (Node(broker, 1) for broker in (1, 2, 3))
    replicas = Replicas(me, post, driver, incarnation=1, now_ms=0)
    replicas.add_peer(other)
    for number in range(3):
        partition = PartitionId(TopicId("c" * 32), number)
        replicas.send(other, partition, CampaignRequest(term=number), b"")
        replicas.send(third, partition, CampaignRequest(term=number), b"")
    assert post.parcels == []
    replicas.run_due(0)
    to_other, to_third = post.parcels
    assert [letter.message.term for letter in to_other.letters] == [0, 1, 2]
    assert [letter.partition.partition for letter in to_third.letters] == [0, 1, 2]
    assert to_other.heartbeat is not None, "in the same parcel"
    assert to_third.heartbeat is None
    driver.end_turn()
    assert len(post.parcels) == 2


def test_much_at_once_is_several_parcels() -> None:
    post, driver = Post(), Driver()
    replicas = Replicas(Node(1, 1), post, driver, incarnation=1, now_ms=0)
    large = bytes(PARCEL_BYTES_MAX // 2)
    for number in range(5):
        partition = PartitionId(TopicId("c" * 32), number)
        replicas.send(Node(2, 1), partition, CampaignRequest(term=number), large)
    driver.end_turn()
    assert [len(parcel.letters) for parcel in post.parcels] == [2, 2, 1]


def test_a_learner_gets_the_log_and_has_no_vote() -> None:
    company = Company(brokers=2, voters=1)
    leader = company.leader()
    company.propose(leader, b"one", b"two", b"three")
    company.run(200)
    learner = company.machines[1]
    replica = company.replica(leader)
    alone = [replica.is_alone]
    grown = Membership(frozenset({leader.node}), frozenset({learner.node}))
    leader.do(lambda _: company.served(leader).participant.change_membership(grown))
    company.run(2_000)
    alone.append(replica.is_alone)
    assert alone == [True, False]
    assert len(company.high_watermarks()) == 1
    assert company.stored_bytes(learner) == company.stored_bytes(leader)
    leader.crash()
    company.run(5_000)
    assert not company.leads(learner)


def test_leadership_is_handed_over() -> None:
    company = Company()
    leader = company.leader()
    company.run(500)
    successor = next(machine for machine in company.machines if machine is not leader)
    leader.do(lambda _: company.served(leader).participant.transfer(successor.node))
    company.run(500)
    assert company.leads(successor)
    assert not company.leads(leader)


def test_another_leads_at_once_when_the_leaders_disk_fails() -> None:
    """R-REP-2: it is asked to, and nobody waits for the election time."""
    company = Company()
    leader = company.leader()
    company.propose(leader, b"one")
    company.run(500)
    readable = company.stored_bytes(leader)
    leader.disk.fail_next("flush", errno.EIO)
    company.propose(leader, b"two")
    company.run(TIMING.election_ms // 2)
    assert not company.leads(leader)
    assert any(company.leads(machine) for machine in company.machines)
    assert company.stored_bytes(leader) == readable


def test_in_sync_is_who_has_everything_or_had_it_lately() -> None:
    """R-REP-3."""
    company = Company()
    leader = company.leader()
    company.run(1_000)
    participant = company.served(leader).participant
    nodes = {machine.node for machine in company.machines}
    assert participant.in_sync == nodes
    dead = next(machine for machine in company.machines if machine is not leader)
    dead.crash()
    company.run(2 * TIMING.election_ms)
    assert participant.in_sync == nodes - {dead.node}, "though nothing was written"
    dead.start()
    company.run(4 * TIMING.election_ms)
    assert participant.in_sync == nodes


def test_a_replica_that_is_removed_is_not_reached() -> None:
    company = Company()
    leader = company.leader()
    gone = next(machine for machine in company.machines if machine is not leader)
    company.replicas(gone).remove(company.partition)
    assert company.replicas(gone).find(company.partition) is None
    company.propose(leader, b"one")
    company.run(1_000)
    assert company.values(gone) == []
    assert company.values(leader) == [b"one"]


def test_a_dead_leader_is_replaced_by_who_lacks_what_it_had_committed() -> None:
    """What it claimed last is told again and again to whoever lacks some of it; that is no news of
    the leader, or it would live for ever."""
    company = Company()
    leader = company.leader()
    behind, ahead = (machine for machine in company.machines if machine is not leader)
    company.run(1_000)
    company.cut_off(behind)
    company.propose(leader, b"one")
    company.run(200)
    # It hears the claims, and gets nothing that is whole of what they tell of.
    company.cluster.network.mend()
    company.cluster.network.damage = 1.0
    company.run(1_000)
    claims = company.replicas(behind)._heard[leader.node].claims
    assert claims[company.partition].commit_offset == 2
    participant = company.served(behind).participant
    assert (participant.leader, participant.commit_offset) == (leader.node, 1)
    leader.crash()
    ahead.crash()
    company.run(3_000)
    assert participant.leader is None, "it campaigns, since nobody leads"


def test_a_leader_that_was_missed_for_a_moment_is_followed_again() -> None:
    """Its claim has not changed, so it is not told again."""
    company = Company()
    leader = company.leader()
    company.run(1_000)
    follower = next(machine for machine in company.machines if machine is not leader)
    participant = company.served(follower).participant

    def lose_patience(process: Process) -> None:
        raft = company.replica(follower).consensus.raft
        raft.deadline_ms = company.cluster.timeline.now_ms
        raft.on_time(company.cluster.timeline.now_ms)

    follower.do(lose_patience)
    lost = [participant.leader]
    company.run(2_000)
    assert [*lost, participant.leader] == [None, leader.node]
    assert company.leads(leader)


def test_a_follower_that_started_again_learns_what_is_committed_from_an_idle_leader() -> None:
    """The leader has its answer from before, and never heard a heartbeat of that life."""
    company = Company()
    leader = company.leader()
    company.propose(leader, b"one")
    follower = next(machine for machine in company.machines if machine is not leader)
    company.run(1_000)
    follower.crash()
    company.replicas(leader)._heard[follower.node] = HeardClaims()
    follower.start()
    company.run(3_000)
    assert company.high_watermarks() == {2}


def test_a_leader_of_its_own_tells_raft_what_is_committed_before_others_join() -> None:
    """Also what retention has taken: nobody may be sent what is not there."""
    company = Company(brokers=2, voters=1)
    leader, joining = company.leader(), company.machines[1]
    company.propose(leader, b"one", b"two")
    company.run(200)
    leader.do(lambda _: company.replica(leader).roll())
    company.propose(leader, b"three")
    company.run(200)
    company.cluster.observer.may_delete(company.served(leader), 2)
    company.replica(leader).log.cutter.delete_before(2)
    both = Membership(frozenset({leader.node, joining.node}))
    leader.do(lambda _: company.served(leader).participant.change_membership(both))
    company.run(3_000)
    assert company.high_watermarks() == {4}
    assert company.stored_bytes(joining) == company.stored_bytes(leader)


def test_nothing_is_taken_while_a_newer_term_is_saved() -> None:
    """What is proposed then would be of a term that is over."""
    company = Company()
    leader = company.leader()
    company.run(1_000)
    other = next(machine for machine in company.machines if machine is not leader)
    leader.disk_delay_ms_max = 400
    request = VoteRequest(term=9, last_term=9, end_offset=100, is_trial=False, is_transfer=True)
    participant = company.served(leader).participant
    leader.do(lambda _: participant.receive(other.node, request, memoryview(b"")))
    answers = company.propose(leader, b"one")
    assert company.replica(leader).consensus.is_busy
    assert [type(answer) for answer in answers] == [NotLeader]
    leader.mend()
    company.run(5_000)
    assert company.replica(leader).failure is None
    assert company.values(company.leader()) == []


def test_a_stop_forgets_what_there_was_no_room_to_write() -> None:
    """R-PRO-2: nobody was told of it, so who sends it again must not pass for a repetition."""
    company = Company(brokers=2, voters=1)
    leader = company.leader()
    learning = Membership(frozenset({leader.node}), frozenset({company.machines[1].node}))
    leader.disk.capacity_bytes = 0
    leader.do(lambda _: company.served(leader).participant.change_membership(learning))
    company.run(50)
    answers: list[object] = []

    def produce() -> None:
        batch = build_batch([(None, b"one")], producer_id=7, producer_epoch=0, base_sequence=0)
        company.produce(leader, batch, answers)

    produce()
    leader.stop()
    company.run(1_000)
    assert leader.process is None
    leader.mend()
    leader.start()
    company.run(1_000)
    produce()
    company.run(1_000)
    assert isinstance(answers[-1], int)
    assert company.values(leader) == [b"one"]


def test_a_lone_leader_is_not_two() -> None:
    """R-REP-3: nobody is told that two have it, though it is committed."""
    company = Company(brokers=2, voters=1, config=TopicConfig(min_insync_replicas=2))
    leader, joining = company.leader(), company.machines[1]
    assert [type(answer) for answer in company.propose(leader, b"one")] == [NotEnoughReplicas]
    # As when the other has left since that was looked at.
    told: list[object] = []
    batch = memoryview(build_batch([(None, b"two")]))
    leader.do(lambda _: company.replica(leader).propose(read_header(batch), batch, told.append))
    company.run(500)
    assert company.values(leader) == [b"two"]
    assert [type(answer) for answer in told] == [NotEnoughReplicasAfterAppend]
    both = Membership(frozenset({leader.node, joining.node}))
    leader.do(lambda _: company.served(leader).participant.change_membership(both))
    company.run(3_000)
    answers = company.propose(leader, b"three")
    company.run(1_000)
    assert isinstance(answers[0], int)
    assert company.values(joining) == [b"two", b"three"]


def test_what_was_deleted_is_known_to_be_committed_after_a_restart() -> None:
    """Retention takes it at once, and Raft must not offer it to anybody."""
    company = Company()
    leader = company.leader()
    company.propose(leader, b"one", b"two")
    company.run(500)
    follower = next(machine for machine in company.machines if machine is not leader)
    for machine in (leader, follower):
        machine.do(lambda _, machine=machine: company.replica(machine).roll())  # type: ignore[misc]
    company.propose(leader, b"three", b"four")
    company.run(500)
    company.cluster.observer.may_delete(company.served(leader), 4)
    leader.do(lambda _: company.replica(leader).delete_before(4, lambda _: None))
    company.run(1_000)
    company.cut_off(follower)
    follower.crash()
    follower.start()
    replica = company.replica(follower)
    assert replica.log.start_offset == 4
    # The end of the segment that lies before it: a batch ends there.
    assert company.served(follower).participant.commit_offset == 3
