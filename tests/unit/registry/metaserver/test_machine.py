"""The log, the state and the snapshots of meta servers, three of them in virtual time (R-REP-5)."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptFacts, CorruptLog, PenstockError, RegistryUnavailable
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.facts import ReserveProducerIds
from penstock.registry.metaserver.entries import new_entry
from penstock.registry.metaserver.snapshots import SNAPSHOT
from penstock.registry.metaserver.state import Outcome, decode_snapshot
from penstock.storage.files.journal import read_journal, write_journal
from tests.kit.registry.meta_servers import CLUSTER, Host, Quorum


def reserve(quorum: Quorum, times: int, host: Host | None = None) -> int:
    """The last producer id that was given away."""
    for _ in range(times):
        last = quorum.change(ReserveProducerIds(count=1), host).first_producer_id
    return int(last)


def fill_hole(quorum: Quorum, host: Host) -> None:
    """What `MetaServer` does, from whichever server has it."""
    request = pb.MetaSnapshotRequest(first_offset=host.machine.replica.log.first_offset)
    for other in quorum.hosts.values():
        answer = None if other.service is None else other.call(calls.META_SNAPSHOT, request)
        if answer is not None and answer.error is None:
            assert host.service is not None
            host.service.install(decode_snapshot(answer.given, "snapshot"))
            return
        if answer is not None:
            assert isinstance(answer.error, RegistryUnavailable)


def follower(quorum: Quorum) -> Host:
    leader = quorum.leader()
    return next(host for host in quorum.hosts.values() if host is not leader)


@pytest.fixture
def quorum() -> Quorum:
    made = Quorum(snapshot_changes=20)
    made.make_cluster()
    return made


def test_a_snapshot_takes_the_place_of_the_log(quorum: Quorum) -> None:
    entry = new_entry(ReserveProducerIds(count=1))
    quorum.send_entry(entry)
    last = reserve(quorum, 200)
    quorum.run(2_000)
    for host in quorum.hosts.values():
        log = host.machine.replica.log
        assert log.next_offset > 200 > log.next_offset - log.first_offset < 80
        host.crash()
        host.start()
        assert host.machine.applied_offset >= log.first_offset, "there is no hole"
    assert quorum.send_entry(entry).first_producer_id == 0, "it is remembered"
    assert reserve(quorum, 1) == last + 1
    quorum.run(2_000)
    states = quorum.states()
    assert states[0] == states[1] == states[2]


def test_a_server_far_behind_is_given_a_snapshot(quorum: Quorum) -> None:
    late = follower(quorum)
    late.crash()
    last = reserve(quorum, 200)
    late.start()
    quorum.run_until(lambda: late.machine.has_hole)
    quorum.run(2_000)
    assert late.machine.state.facts is None, "nothing is made up"
    assert isinstance(
        late.call(calls.META_SNAPSHOT, pb.MetaSnapshotRequest()).error, RegistryUnavailable
    )
    fill_hole(quorum, late)
    reserve(quorum, 5)
    quorum.run(2_000)
    states = quorum.states()
    assert states[0] == states[1] == states[2]
    assert states[0].facts.next_producer_id == last + 6
    late.crash()
    late.start()
    assert not late.machine.has_hole, "it was kept"


def test_a_hole_is_found_again_after_a_crash(quorum: Quorum) -> None:
    late = follower(quorum)
    late.crash()
    reserve(quorum, 200)
    late.start()
    quorum.run_until(lambda: late.machine.has_hole)
    quorum.run(1_000)
    late.crash()
    late.start()
    assert late.machine.has_hole
    fill_hole(quorum, late)
    assert not late.machine.has_hole


def test_who_leads_with_a_hole_serves_nothing_until_it_is_filled(quorum: Quorum) -> None:
    """It has the log that is needed to be elected, and not the state."""
    late = follower(quorum)
    late.crash()
    last = reserve(quorum, 200)
    late.start()
    quorum.run_until(lambda: late.machine.has_hole)
    quorum.run(2_000)
    leader = quorum.leader()
    assert leader.service is not None
    assert leader.service.participant.transfer(late.node)
    leader.driver.end_turn()
    quorum.run_until(lambda: late.leads)
    for call, request in (
        (calls.META_CHANGE, pb.MetaChangeRequest(entry=new_entry(ReserveProducerIds(count=1)))),
        (calls.META_FETCH, pb.MetaFetchRequest(cluster_id=CLUSTER, seen_version=-1)),
        (calls.META_HEARTBEAT, pb.MetaHeartbeatRequest(cluster_id=CLUSTER)),
    ):
        assert isinstance(late.call(call, request).error, RegistryUnavailable)
    fill_hole(quorum, late)
    assert reserve(quorum, 1, late) == last + 1


def test_a_snapshot_that_does_not_fill_the_hole_is_left_alone(quorum: Quorum) -> None:
    late = follower(quorum)
    early = quorum.leader().machine.snapshot()
    late.crash()
    reserve(quorum, 200)
    late.start()
    quorum.run_until(lambda: late.machine.has_hole)
    late.machine.install(early)
    assert late.machine.has_hole


def test_what_is_committed_and_not_understood_is_not_skipped(quorum: Quorum) -> None:
    """As after a downgrade: this server would differ from those that understand it."""
    told: list[Outcome | PenstockError] = []
    leader = quorum.leader()
    leader.machine.propose(b'{"format":99}', told.append)
    leader.driver.end_turn()
    quorum.run(5_000)
    assert [isinstance(host.machine.failure, CorruptFacts) for host in quorum.hosts.values()] == [
        True
    ] * 3
    assert not any(host.leads for host in quorum.hosts.values())
    host = quorum.hosts[leader.node]
    answer = host.call(calls.META_FETCH, pb.MetaFetchRequest(seen_version=-1))
    assert "format 99 is of a later version" in str(answer.error)


def test_a_snapshot_that_is_damaged_is_not_believed(quorum: Quorum) -> None:
    reserve(quorum, 50)
    quorum.run(1_000)
    host = quorum.leader()
    host.crash()
    folder = host.disk.root.subdirectory("meta-log")
    kept = read_journal(folder, SNAPSHOT)
    assert kept is not None
    write_journal(folder, SNAPSHOT, kept.replace(b'"offset"', b'"offsat"'))
    with pytest.raises(CorruptFacts, match="snapshot"):
        host.start()
    file = folder.open(SNAPSHOT)
    file.truncate(30)
    with pytest.raises(CorruptLog, match="snapshot"):
        host.start()


def test_a_full_disk_costs_no_more_than_the_snapshot(quorum: Quorum) -> None:
    host = follower(quorum)
    folder = host.disk.root.subdirectory("meta-log")
    folder.subdirectory(f"{SNAPSHOT}.new")  # what cannot be opened as a file
    reserve(quorum, 50)
    quorum.run(1_000)
    assert read_journal(folder, SNAPSHOT) is None
    assert host.machine.state.version == 50


@pytest.mark.parametrize("seed", range(15))
def test_nothing_that_was_answered_is_lost_or_made_twice(seed: int) -> None:
    """Servers crash, are cut off and stand still while producer ids are reserved, each request
    sent again until it is answered."""
    quorum = Quorum(snapshot_changes=15, seed=seed)
    quorum.make_cluster()
    chance = quorum.random
    given: list[int] = []
    for _ in range(60):
        entry = new_entry(ReserveProducerIds(count=1))
        request = pb.MetaChangeRequest(entry=entry)
        answered: list[int] = []
        for _ in range(200):
            host = chance.choice(list(quorum.hosts.values()))
            if host.service is not None and not host.is_stopped:
                answer = host.call(calls.META_CHANGE, request)
                disturb(quorum)
                quorum.run(chance.randint(1, 400))
                if answer.response is not None:
                    answered.append(answer.response.first_producer_id)
                    break
            heal(quorum)
        assert answered, "it never came to be"
        given += answered
    assert given == sorted(set(given)), "in order, and none twice"
    quorum.cut.clear()
    for host in quorum.hosts.values():
        if host.service is None:
            host.start()
        host.go_on()
    quorum.run(5_000)
    heal(quorum)
    quorum.run(5_000)
    states = quorum.states()
    assert states[0] == states[1] == states[2]
    assert states[0].facts.next_producer_id == 60, "each was made once"


def disturb(quorum: Quorum) -> None:
    chance = quorum.random
    host = chance.choice(list(quorum.hosts.values()))
    match chance.randint(0, 12):
        case 0 | 1:
            if host.service is not None:
                host.crash()
        case 2:
            quorum.cut_off(host)
        case 3:
            host.stop()
        case _:
            pass


def heal(quorum: Quorum) -> None:
    """One thing at a time."""
    for host in quorum.hosts.values():
        if host.service is None:
            host.start()
        elif host.is_stopped:
            host.go_on()
        elif host.machine.has_hole:
            fill_hole(quorum, host)
        else:
            continue
        break
    else:
        quorum.cut.clear()
    quorum.run(50)
