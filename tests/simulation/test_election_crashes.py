"""A crash at each disk operation of a replica while terms begin where they were expected to, and
where they were not.

Where a term will begin is saved before it does, and may never come true. What a crash leaves of the
log and of what was saved must agree all the same. The checkers, each by its name below: every batch
is found in the term that is stamped on it, which log matching rests on; and nothing that anybody
was told of terms, votes and copies is forgotten. Both hold after the crash, and after another one
when the next leader had something older to tell than what was expected.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

import pytest

from penstock.model.ids import PartitionId
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import (
    AppendAnswer,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from tests.kit.replication.replica import ME, OTHER, THIRD, One, made
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk
from tests.kit.simulation.clusters.copies import Copy

WAYS: tuple[Persistence, ...] = ("lost", "kept", 1, 2, 3)
MEMBERSHIP = Membership(frozenset({ME, OTHER, THIRD}))
# Larger than any that the life below comes to.
NEXT_TERM = 20


class Replica(One):
    """One that knows what it has promised, and to whom."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.term = 0
        self.votes: dict[int, Node] = {}
        self.acknowledged = (0, 0)
        super().__init__(disk)

    @property
    def raft_term(self) -> int:
        return self.replica.consensus.raft.state.term

    def send(self, node: Node, partition: PartitionId, message: Message, payload: bytes) -> None:
        super().send(node, partition, message, payload)
        if self.disk.crashed:
            return
        match message:
            case VoteAnswer(is_trial=False, is_granted=True):
                assert self.votes.setdefault(message.term, node) == node
            case VoteRequest(is_trial=False):
                assert self.votes.setdefault(message.term, ME) == ME
            case AppendAnswer(is_matching=True):
                self.acknowledged = message.term, message.end_offset
            case _:
                pass
        if not getattr(message, "is_trial", False):
            self.term = max(self.term, message.term)

    def vote(self, term: int, last_term: int, end_offset: int) -> None:
        """OTHER campaigns, whose log ends so, and no leader was heard of for long."""
        self.clock.time_ms += 1_000
        self.receive(
            VoteRequest(term=term, last_term=last_term, end_offset=end_offset, is_trial=False)
        )
        self.flusher.run_all()

    def campaign(self) -> None:
        """In earnest, since OTHER would vote for it."""
        self.clock.time_ms += 1_000
        self.participant.on_time(self.clock.time_ms)
        self.driver.end_turn()
        self.receive(VoteAnswer(term=self.raft_term + 1, is_trial=True, is_granted=True))
        self.flusher.run_all()

    def win(self) -> None:
        self.receive(VoteAnswer(term=self.raft_term, is_trial=False, is_granted=True))
        self.flusher.run_all()

    def begin_anew(self, request: ResetRequest) -> None:
        self.receive(request)
        self.flusher.run_all()

    def copy(self, term: int, place: tuple[int, int], *batches: bytearray) -> None:
        self.append(term, place, *batches)
        self.flusher.run_all()


def life() -> Iterator[tuple[Callable[[Replica], None], int]]:
    """What happens to it, one thing after another, and the end of its log then."""
    yield lambda one: one.copy(1, (0, 0), made(0, 2)), 2
    # It votes, and the leader has something older first.
    yield lambda one: one.vote(3, 1, 3), 2
    yield lambda one: one.copy(3, (1, 2), made(2, 1)), 3
    yield lambda one: one.copy(3, (1, 3), made(3, 1, 3)), 4
    # It campaigns and loses; the leader's term begins later, in the same request.
    yield lambda one: one.campaign(), 4
    yield lambda one: one.copy(4, (3, 4), made(4, 2, 3), made(6, 1, 4)), 7
    # It campaigns, somebody else does next, and cuts what it has: the term begins earlier.
    yield lambda one: one.campaign(), 7
    yield lambda one: one.vote(6, 5, 6), 7
    yield lambda one: one.copy(6, (3, 6), made(6, 2, 6)), 8
    # It is elected, where it expected to be, and the next leader knows nothing of it.
    yield lambda one: one.campaign(), 8
    yield lambda one: one.win(), 9
    yield lambda one: one.vote(8, 7, 9), 9
    yield lambda one: one.copy(8, (6, 8), made(8, 1, 8)), 9
    # It hears of a term by a leader who has let go of the beginning.
    reset = ResetRequest(term=9, start_offset=100, start_term=8, membership=MEMBERSHIP)
    yield lambda one: one.begin_anew(reset), 100
    yield lambda one: one.copy(9, (8, 100), made(100, 1, 8)), 101
    yield lambda one: one.copy(9, (8, 101), made(101, 1, 9)), 102


def live(disk: SimulatedDisk) -> Replica | None:
    """To the end, or until the disk crashes; None if that comes before there is a replica."""
    one = None
    with contextlib.suppress(SimulatedCrash):
        one = Replica(disk)
        for step, end_offset in life():
            step(one)
            if disk.crashed:
                break
            assert one.log.written_offset == end_offset
    return one


def check_terms_are_those_stamped(one: One) -> None:
    terms = one.replica.consensus.raft.state.terms
    copy = Copy(ME, one.log, is_compacted=False, is_rotten=False)
    copy.refresh()
    assert copy.end_offset == terms.end_offset
    for batch in copy.held:
        assert terms.term_before(batch.end_offset) == batch.term, (terms, batch)


def check_promises_are_kept(before: Replica, after: One) -> None:
    state = after.replica.consensus.raft.state
    assert state.term >= before.term
    if state.term in before.votes:
        assert state.vote == before.votes[state.term]
    term, end_offset = before.acknowledged
    if term == before.term:
        # Or a later leader may have had it cut.
        assert state.terms.end_offset >= end_offset


def hear_something_older(one: One) -> None:
    """From a leader of a new term, which begins later than this replica's log ends."""
    terms = one.replica.consensus.raft.state.terms
    last_term, end_offset = terms.last_term, terms.end_offset
    one.clock.time_ms += 1_000
    one.receive(
        VoteRequest(term=NEXT_TERM, last_term=last_term, end_offset=end_offset + 1, is_trial=False)
    )
    one.flusher.run_all()
    place = (last_term, end_offset)
    one.append(NEXT_TERM, place, made(end_offset, 1, max(last_term, 1)))
    one.flusher.run_all()
    assert one.log.written_offset == end_offset + 1


def count_operations() -> int:
    disk = SimulatedDisk()
    live(disk)
    return len(disk.operations)


@pytest.mark.parametrize("way", WAYS)
def test_a_log_is_found_in_the_terms_it_was_written_in(
    way: Persistence, caplog: pytest.LogCaptureFixture
) -> None:
    """R-REP-2: after a crash at any operation."""
    caplog.set_level(logging.CRITICAL)
    operations = count_operations()
    assert operations > 100, "the life is a long one"
    for operation in range(1, operations + 1):
        disk = SimulatedDisk()
        disk.crash_at(operation)
        before = live(disk)
        assert disk.crashed
        after = One(disk.after_crash(way))
        check_terms_are_those_stamped(after)
        if before is not None:
            check_promises_are_kept(before, after)
        after.flusher.run_all()
        hear_something_older(after)
        again = One(after.disk.after_crash(way))
        check_terms_are_those_stamped(again)
