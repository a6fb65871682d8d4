"""From `__staged` to the partitions: one decided epoch, its batches in order, each once.

The copy is an idempotent produce, under the decision's own producer id: a batch that a partition
has already is not written again, so a copy that was cut short anywhere goes on where it stopped,
here or on another broker. What another broker leads is sent there (`broker.carrier`). The
invariants: a partition gets the batches of the attempts in the order in which the decision
names them, and of each in the order in which they were staged, numbered without a gap; and what is
written and not committed yet is bounded. When it goes on is for `copies` to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from penstock.broker.carrier.append import Carried
from penstock.broker.carrier.destination import Destination
from penstock.broker.carrier.parts import Parts
from penstock.broker.partitions.partition import Partition
from penstock.broker.staging.batch import unwrap
from penstock.coordination.staging.records import Decision, StagedBatch
from penstock.model.errors import Busy, CorruptLog, PenstockError, UnknownTopic
from penstock.model.limits import MIB

# Read, numbered and written in one go: a few milliseconds, by size or by number.
_CHUNK_BYTES: Final = 1 * MIB
_CHUNK_BATCHES: Final = 100
# Written and not committed yet: so that the disk is busy while the next chunk is read.
_FLYING_BYTES_MAX: Final = 8 * MIB
_NOTHING: Final = (0, 0)


class Copy:
    """One try to carry out a decision."""

    def __init__(
        self,
        decision: Decision,
        offsets: Sequence[Sequence[int]],
        *,
        source: Partition,
        parts: Parts,
        term: int,
        ready: Callable[[Copy], None],
    ) -> None:
        """offsets: of the batches in the source. term: of who coordinates. ready: told when it is
        to `go_on`, which must be in another turn of the loop."""
        self.decision = decision
        self._source = source
        self._parts = parts
        self._term = term
        self._ready = ready
        self._destinations: dict[tuple[str, str, int], Destination] = {}
        # What is yet to be read: up to the end of a run, and then the next ones.
        self._runs = _runs(offsets)
        self._offset, self._end = next(self._runs, _NOTHING)
        # Proposed and not committed yet.
        self._flying_bytes = 0
        self._error: PenstockError | None = None

    def go_on(self) -> bool:
        """Copy a chunk more, if there is room for it; the end of the turn must follow. True when
        all of it is committed. PenstockError: some of it may be, and is not copied again by the
        next try."""
        if self._error is not None:
            raise self._error
        if self._offset < self._end and self._flying_bytes <= _FLYING_BYTES_MAX:
            self._offset = self._copy_chunk(self._offset, self._end)
            if self._offset == self._end:
                self._offset, self._end = next(self._runs, _NOTHING)
            if self._offset < self._end and self._flying_bytes <= _FLYING_BYTES_MAX:
                self._ready(self)
        return self._offset == self._end and not self._flying_bytes

    def _landed(self, size_bytes: int, error: PenstockError | None) -> None:
        """A batch is committed, or may never be."""
        if isinstance(error, UnknownTopic):
            # Whoever wrote is not to blame: the next try passes over what was deleted.
            error = Busy(f"A topic was deleted while it was written to: {error}")
        self._flying_bytes -= size_bytes
        self._error = self._error or error
        is_read = self._offset == self._end
        if self._error or self._flying_bytes <= (0 if is_read else _FLYING_BYTES_MAX):
            self._ready(self)

    def forget_producer(self) -> None:
        """When nobody will ask again how far it came: one for each epoch would soon be more than a
        partition remembers, and others would be forgotten for them."""
        for destination in self._destinations.values():
            destination.forget_producer()

    def _copy_chunk(self, offset: int, end: int) -> int:
        """Copy some of the batches from the offset on; the offset behind them."""
        part = memoryview(self._source.replica.log.read(offset, _CHUNK_BYTES, end).read())
        if not part:
            raise CorruptLog(f"Offset {offset} of {self._source.name} is gone, and was needed.")
        position = 0
        limit = offset + _CHUNK_BATCHES
        while position < len(part) and offset < limit:
            position, staged, batch = unwrap(part, position)
            if self._destination(staged).append(batch, Carried(partial(self._landed, len(batch)))):
                self._flying_bytes += len(batch)
            offset += 1
        return offset

    def _destination(self, staged: StagedBatch) -> Destination:
        key = (staged.topic, staged.topic_id, staged.partition)
        destination = self._destinations.get(key)
        if destination is None:
            producer_id = self.decision.producer_id
            destination = Destination(self._parts, staged, producer_id, self._term)
            self._destinations[key] = destination
        return destination


def _runs(attempts: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
    """Offsets that follow one another, as (first, end): they are read together."""
    first = end = -1
    for offsets in attempts:
        for offset in offsets:
            if offset != end:
                if end > first:
                    yield first, end
                first = offset
            end = offset + 1
    if end > first:
        yield first, end
