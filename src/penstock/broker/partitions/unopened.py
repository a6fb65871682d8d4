"""A batch that has to be opened before it can be gone on with: at once if there is little in it,
else in its turn, by a thread.

A few kilobytes can open to 64 MiB, and hundreds of small batches come in one request. Not who waits
for it: producers do in `broker.topics.openings`, shared groups and dead letters in work of their
own (`broker.turns.fair_turns`). The invariant: in one turn of the loop no more than
OPENED_PER_TURN_BYTES_MAX are opened at once, by all who open something, whatever the batches say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.broker.turns.fair_turns import Pieces
from penstock.model.errors import InvalidBatch
from penstock.model.limits import (
    KIB,
    OPENED_AT_ONCE_BYTES_MAX,
    OPENED_AT_ONCE_COMPRESSED_BYTES_MAX,
    OPENED_AT_ONCE_RECORDS_MAX,
    OPENED_BATCH_BYTES_MAX,
    OPENED_PER_TURN_BYTES_MAX,
)
from penstock.records.header import BatchHeader
from penstock.records.plain import PlainBatch, plain_batch

ResultT = TypeVar("ResultT")

# To open the smallest takes as long as so much of a larger one.
_EACH_BYTES = 1 * KIB


class TurnBudget:
    """What may still be opened at once in this turn of the loop. One per broker."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """call_soon: has something called in the next turn of the loop."""
        self._call_soon = call_soon
        self.left_bytes = OPENED_PER_TURN_BYTES_MAX
        self._is_used = False

    def spend(self, size_bytes: int) -> None:
        self.left_bytes -= size_bytes + _EACH_BYTES
        if not self._is_used:
            self._is_used = True
            self._call_soon(self._renew)

    def _renew(self) -> None:
        self._is_used = False
        self.left_bytes = OPENED_PER_TURN_BYTES_MAX


# Not frozen: that would take three times as long to make, and there is one for each batch.
@dataclass(slots=True)
class Unopened(Generic[ResultT]):
    """A checked batch, and what is to be made of it."""

    header: BatchHeader
    batch: memoryview
    make: Callable[[PlainBatch], ResultT]
    """May raise InvalidBatch. A thread may do it: it touches nothing that anybody else has."""
    bytes_max: int = OPENED_BATCH_BYTES_MAX
    """With more in it, it is InvalidBatch."""

    def at_once(self, budget: TurnBudget) -> ResultT | None:
        """What is made of it, if there is little in it, and little was opened in this turn; None
        otherwise, or if it is damaged, which is found once more."""
        room = min(budget.left_bytes, OPENED_AT_ONCE_BYTES_MAX, self.bytes_max)
        if not self._may_be_little(room):
            return None
        plain = self._plain_if_little(room)
        budget.spend(room if plain is None else len(plain.batch))
        return None if plain is None else self.make(plain)

    def opened(self) -> ResultT:
        """What is made of it, however long that takes."""
        return self.make(plain_batch(self.header, self.batch, self.bytes_max))

    def in_turn(self) -> Pieces[ResultT]:
        """The same as work in turns, which have a bound of their own: a piece of it, or a job."""
        room = min(OPENED_AT_ONCE_BYTES_MAX, self.bytes_max)
        if self._may_be_little(room):
            plain = self._plain_if_little(room)
            if plain is not None:
                return self.make(plain)
        result: ResultT = yield self.opened
        return result

    def _plain_if_little(self, room: int) -> PlainBatch | None:
        try:
            return plain_batch(self.header, self.batch, room)
        except InvalidBatch:
            return None

    def _may_be_little(self, room: int) -> bool:
        header = self.header
        if room <= 0 or header.record_count > OPENED_AT_ONCE_RECORDS_MAX:
            return False
        most = OPENED_AT_ONCE_COMPRESSED_BYTES_MAX if header.codec else room
        return header.length <= most
