"""The disk of one node of a cluster of consensus alone: a log of batches, and the state it saved.

As unreliable as the contract of `raft.core` allows: a crash takes any part of what was not flushed,
and may bring back what was dropped. The invariant: what is flushed, saved or cut stays so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from random import Random

from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import BatchPlace
from penstock.raft.state import SavedState
from penstock.raft.terms import TermHistory
from tests.kit.simulation.checkers import Fact
from tests.kit.simulation.messages import message

BATCHES_PER_REQUEST_MAX = 4
NOOP = -1


@dataclass(frozen=True)
class Batch:
    """A batch with its bytes: a number that no other has, or NOOP."""

    place: BatchPlace
    payload: int

    @property
    def base_offset(self) -> int:
        return self.place.base_offset

    @property
    def end_offset(self) -> int:
        return self.place.end_offset

    @property
    def term(self) -> int:
        return self.place.term

    @cached_property
    def facts(self) -> tuple[tuple[int, Fact], ...]:
        """As many messages as it is long, or what a leader wrote of its own."""
        return tuple(
            (offset, Fact(self.term, None, self._value(offset - self.base_offset)))
            for offset in range(self.base_offset, self.end_offset)
        )

    def _value(self, number: int) -> bytes:
        if self.payload == NOOP:
            return b"" if self.place.membership is None else b"%r" % self.place.membership
        return message(self.payload, number)[1]


class Disk:
    """What one node has: a log of which the end may not be flushed, and what it saved."""

    is_compacted = False

    def __init__(self, node: Node, membership: Membership) -> None:
        self.node = node
        first = MembershipAt(-1, 0, membership)
        self.saved = SavedState(term=0, vote=None, terms=(), memberships=(first,))
        self.start_offset = 0
        self.batches: list[Batch] = []
        self.flushed_offset = 0
        # So that a flush that began before a cut is known as one.
        self.cuts = 0
        self._dropped: list[Batch] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].place.end_offset if self.batches else self.start_offset

    @property
    def held(self) -> list[Batch]:
        return self.batches

    def facts(self) -> dict[int, Fact]:
        return {offset: fact for batch in self.batches for offset, fact in batch.facts}

    def append(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            assert batch.place.base_offset == self.end_offset, (batch, self.end_offset)
            self.batches.append(batch)

    def read(self, offset: int, end_offset: int) -> tuple[Batch, ...]:
        """A few batches from the offset, where one begins or the log ends, no further than to the
        end."""
        first = self._index_of(offset)
        some = self.batches[first : first + BATCHES_PER_REQUEST_MAX]
        return tuple(batch for batch in some if batch.place.end_offset <= end_offset)

    def truncate(self, offset: int) -> None:
        """Durably."""
        del self.batches[self._index_of(offset) :]
        self.flushed_offset = min(self.flushed_offset, offset)
        self.cuts += 1

    def drop_before(self, offset: int) -> None:
        """Retention: a crash may bring it back."""
        first = self._index_of(offset)
        self._dropped += self.batches[:first]
        del self.batches[:first]
        self.start_offset = offset

    def reset(self, offset: int) -> None:
        """Durably."""
        self.batches.clear()
        self._dropped.clear()
        self.start_offset = self.flushed_offset = offset
        self.cuts += 1

    def crash(self, random: Random) -> None:
        """Some of what was not flushed is gone."""
        flushed = self._index_of(self.flushed_offset)
        kept = random.choice((flushed, len(self.batches), random.randint(flushed, self.count)))
        del self.batches[kept:]
        if self._dropped and random.random() < 0.5:
            self.batches[:0] = self._dropped
            self.start_offset = self.batches[0].place.base_offset
        self._dropped.clear()

    def found(self) -> TermHistory:
        """What a node finds when it starts; all of it is durable then."""
        if self.start_offset < self.saved.reset_offset:
            self.reset(self.saved.reset_offset)
        self.flushed_offset = self.end_offset
        return TermHistory.found(self.saved.terms, self.start_offset, self.end_offset)

    @property
    def count(self) -> int:
        return len(self.batches)

    def _index_of(self, offset: int) -> int:
        """Of the batch that begins there."""
        low, high = 0, len(self.batches)
        while low < high:
            middle = (low + high) // 2
            if self.batches[middle].place.base_offset < offset:
                low = middle + 1
            else:
                high = middle
        if low == len(self.batches):
            assert offset == self.end_offset, (offset, self.end_offset)
        else:
            assert self.batches[low].place.base_offset == offset, (offset, self.batches[low])
        return low
