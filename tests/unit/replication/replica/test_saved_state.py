"""Raft's journal: what is read back is what was written, and damage is no answer."""

from __future__ import annotations

import contextlib
import json
import struct

import pytest

from penstock.model.errors import CorruptLog, DiskFull
from penstock.raft.core import Raft
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import VoteAnswer, VoteRequest
from penstock.raft.state import SavedState, Timing
from penstock.raft.terms import TermHistory, TermStart
from penstock.records.header import read_header
from penstock.replication.replica.saved_state import (
    RAFT_JOURNAL,
    Keeper,
    SaveJob,
    decode,
    encode,
    read_reset,
    read_saved,
)
from penstock.storage.files.journal import write_journal
from tests.kit.replication.replica import ME as HERE
from tests.kit.replication.replica import One, made
from tests.kit.simulated_disk import SimulatedCrash, SimulatedDisk

ME, OTHER, THIRD = Node(1, 2**62), Node(2, 7), Node(3, 0)
ALONE = Membership(frozenset({ME}))
SAVED = SavedState(
    term=7,
    vote=OTHER,
    terms=(TermStart(0, 0), TermStart(3, 40), TermStart(7, 90)),
    memberships=(
        MembershipAt(-1, -1, ALONE),
        MembershipAt(40, 3, Membership(frozenset({ME, OTHER}), frozenset({THIRD}))),
    ),
    reset_offset=20,
)


def test_what_was_saved_is_found_after_a_crash() -> None:
    """R-REP-2: term and vote are durable before any answer."""
    disk = SimulatedDisk()
    job = SaveJob(disk.root, SAVED)
    errors = [job.error]
    job.run()
    errors.append(job.error)
    assert [error is None for error in errors] == [False, True], "it counts when it has run"
    assert read_saved(disk.after_crash("lost").root, ME, ALONE) == SAVED


def test_without_a_journal_a_lone_voter_has_voted_for_itself() -> None:
    saved = read_saved(SimulatedDisk().root, ME, ALONE)
    assert (saved.term, saved.vote, saved.terms) == (0, ME, (TermStart(0, 0),))
    assert saved.memberships == (MembershipAt(-1, -1, ALONE),)


@pytest.mark.parametrize("voters", [{ME, OTHER}, {OTHER}])
def test_without_a_journal_others_know_nothing(voters: set[Node]) -> None:
    saved = read_saved(SimulatedDisk().root, ME, Membership(frozenset(voters)))
    assert (saved.term, saved.vote, saved.terms) == (0, None, ())
    assert saved.memberships == (MembershipAt(-1, 0, Membership(frozenset(voters))),)


def test_a_full_disk_keeps_the_old_state() -> None:
    disk = SimulatedDisk()
    SaveJob(disk.root, SAVED).run()
    disk.capacity_bytes = sum(map(len, disk.files().values())) + 10
    job = SaveJob(disk.root, SavedState(term=9, vote=None, terms=(), memberships=SAVED.memberships))
    job.run()
    assert isinstance(job.error, DiskFull)
    assert read_saved(disk.root, ME, ALONE) == SAVED


def test_what_came_with_a_new_start_is_there_before_the_state_tells_of_it() -> None:
    disk = SimulatedDisk()
    reset = struct.pack(">q", 20) + b"what came before"
    for operation in range(20):
        disk.crash_at(len(disk.operations) + operation)
        with contextlib.suppress(SimulatedCrash):
            SaveJob(disk.root, SAVED, reset).run()
        disk = disk.after_crash("kept")
        if read_saved(disk.root, ME, ALONE) == SAVED:
            assert read_reset(disk.root) == (20, b"what came before")
            return
    raise AssertionError("it is never saved")


def test_what_was_saved_with_is_not_saved_again() -> None:
    disk = SimulatedDisk()
    keeper = Keeper(disk.root, SAVED)
    keeper.begin_anew(20, b"what came before")
    terms = TermHistory(20, 3)
    raft = Raft(
        ME, SAVED, terms, timing=Timing(election_ms=1, retry_ms=1), draw_delay_ms=int, now_ms=0
    )
    job = keeper.job(raft)
    keeper.begin_anew(30, b"something else")
    keeper.on_saved(job)
    assert keeper.job(raft).reset == struct.pack(">q", 30) + b"something else"
    keeper.on_saved(keeper.job(raft))
    assert keeper.job(raft).reset is None
    assert read_reset(disk.root) is None, "nothing has run"


def changed(**changes: object) -> bytes:
    return json.dumps({**json.loads(encode(SAVED)), **changes}).encode()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        changed(version=2),
        changed(term=-1),
        changed(term=2**63),
        changed(term=6),
        changed(term=True),
        changed(vote=[1]),
        changed(vote=["a", 1]),
        changed(terms=[[0, 0], [3, 0]]),
        changed(terms=[[3, 0], [3, 5]]),
        changed(terms=[[0, 0, 0]]),
        changed(terms=3),
        changed(memberships=[]),
        changed(memberships=[[-2, 0, [[1, 1]], []]]),
        changed(memberships=[[0, 0, [], []]]),
        changed(memberships=[[0, 0, [[1, 1]], [[1, 1]]]]),
        changed(memberships=[[5, 0, [[1, 1]], []], [5, 0, [[1, 1]], []]]),
        changed(reset_offset=None),
    ],
)
def test_a_journal_that_makes_no_sense_is_refused(payload: bytes) -> None:
    disk = SimulatedDisk()
    write_journal(disk.root, RAFT_JOURNAL, payload)
    with pytest.raises(CorruptLog, match="cannot be understood"):
        read_saved(disk.root, ME, ALONE)


def test_a_damaged_journal_is_refused() -> None:
    disk = SimulatedDisk()
    SaveJob(disk.root, SAVED).run()
    disk.flip_bit(RAFT_JOURNAL, 30, 3)
    with pytest.raises(CorruptLog, match="damaged"):
        read_saved(disk.root, ME, ALONE)


def test_round_trip() -> None:
    assert decode(encode(SAVED)) == SAVED


def saved_terms(one: One) -> list[tuple[int, int]]:
    saved = read_saved(one.disk.root, ME, Membership(frozenset()))
    return [(place.term, place.offset) for place in saved.terms]


def test_an_election_is_saved_once() -> None:
    """Where the term will begin is saved with it: a thousand partitions that lose their leader at
    once have a disk to wait for."""
    one = One()
    one.clock.time_ms += 1_000
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    one.receive(VoteAnswer(term=1, is_trial=True, is_granted=True))
    one.flusher.run_all()
    one.receive(VoteAnswer(term=1, is_trial=False, is_granted=True))
    assert one.log.written_offset == 1, "the first record of the term, in the same turn"
    assert saved_terms(one) == [(1, 0)]

    follower = One()
    follower.receive(VoteRequest(term=1, last_term=0, end_offset=0, is_trial=False))
    follower.flusher.run_all()
    follower.append(1, (0, 0), made(0, 1))
    assert follower.log.written_offset == 1
    assert saved_terms(follower) == [(1, 0)]


def test_a_term_that_begins_later_than_expected_is_saved_so_before_it_is_written() -> None:
    """Or a restart would take the records before it for its own, and log matching with it."""
    one = One()
    one.append(1, (0, 0), made(0, 2))
    one.flusher.run_all()
    request = VoteRequest(term=3, last_term=1, end_offset=3, is_trial=False)
    one.clock.time_ms += 1_000
    one.receive(request)
    one.flusher.run_all()
    assert saved_terms(one) == [(1, 0), (3, 2)]
    one.append(3, (1, 2), made(2, 1))
    assert one.log.written_offset == 2, "what is kept would make it a record of term 3"
    one.flusher.run_all()
    assert one.log.written_offset == 3
    assert saved_terms(one) == [(1, 0)]
    one.append(3, (1, 3), made(3, 1))
    assert one.log.written_offset == 4, "nothing is expected any more, and nothing new was said"
    one.flusher.run_all()
    one.append(3, (1, 4), made(4, 1, term=3))
    one.flusher.run_all()
    assert saved_terms(one) == [(1, 0), (3, 4)]


def test_a_namesake_s_first_election_is_of_a_later_term() -> None:
    """Whoever knows of the topic that had the name before takes earlier ones for outdated."""
    one = One(first_term=17, campaigns_at_once=True)
    one.participant.on_time(one.clock.time_ms)
    one.driver.end_turn()
    assert {request.term for request in one.said() if isinstance(request, VoteRequest)} == {18}
    assert one.flusher.jobs == [], "what the registry says need not be written down"
    one.receive(VoteRequest(term=18, last_term=0, end_offset=0, is_trial=False))
    one.flusher.run_all()
    again = One(one.disk.after_crash("lost"), first_term=17)
    assert again.participant.term == 18


def test_a_lone_copy_leads_in_the_term_it_begins_with_and_writes_that_down() -> None:
    """Its log may be all that is left, and must be found in the term that it was written in."""
    one = One(voters=[HERE], first_term=17)
    one.flusher.run_all()
    assert (one.replica.is_leader, one.replica.term) == (True, 17)
    data = memoryview(made(0, 2))
    one.replica.propose(read_header(data), data, None)
    one.driver.end_turn()
    one.flusher.run_all()
    lost = One(one.disk.after_crash("lost"), voters=[HERE])
    lost.flusher.run_all()
    assert (lost.replica.is_leader, lost.replica.term) == (True, 17)
    assert lost.replica.consensus.raft.state.terms.term_before(2) == 17


def test_a_lone_copy_that_has_a_log_stays_in_its_term() -> None:
    """It was lost to the registry, which has made its topic anew, with the terms of today."""
    one = One(voters=[HERE])
    data = memoryview(made(0, 2))
    one.replica.propose(read_header(data), data, None)
    one.driver.end_turn()
    one.flusher.run_all()
    found = One(one.disk.after_crash("lost"), voters=[HERE], first_term=17)
    found.flusher.run_all()
    assert (found.replica.is_leader, found.replica.term) == (True, 0)
    assert found.replica.consensus.raft.state.terms.term_before(2) == 0


def test_a_leader_whose_first_record_found_no_room_writes_it_when_there_is_some() -> None:
    """R-STO-6: nothing else is left to do for it, and it does not take that for rest."""
    for capacity_bytes in range(0, 1_000, 50):
        one = One(SimulatedDisk(), voters=[HERE], first_term=17)
        one.disk.capacity_bytes = capacity_bytes
        one.flusher.run_all()
        one.disk.capacity_bytes = None
        for _ in range(4):
            one.clock.time_ms += 500
            one.participant.on_time(one.clock.time_ms)
            one.driver.end_turn()
            one.flusher.run_all()
        assert one.replica.is_leader, capacity_bytes
