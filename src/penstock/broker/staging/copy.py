"""From `__staged` to the partitions: one decided epoch, its batches in order, each once.

The copy is an idempotent produce, under the decision's own producer id: a batch that a partition
has already is not written again, so a copy that was cut short anywhere goes on where it stopped,
here or on another broker. What another broker leads is sent there (`broker.carrier`). The
invariants: a partition gets the batches of the attempts in the order in which the decision
names them, and of each in the order in which they were staged, numbered without a gap; the loop is
never held for longer than one chunk, whatever there is to copy and however many copies run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from penstock.broker.carrier.destination import Destination, Destinations
from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.staging.batch import unwrap
from penstock.coordination.staging.records import Decision, StagedBatch
from penstock.model.errors import Busy, CorruptLog, PenstockError, UnknownTopic
from penstock.model.limits import MIB
from penstock.records.header import read_header, write_header
from penstock.replication.disk.driver import Driver

# Read, numbered and written in one go: a few milliseconds, by size or by number.
_CHUNK_BYTES: Final = 1 * MIB
_CHUNK_BATCHES: Final = 100
# Written and not committed yet: so that the disk is busy while the next chunk is read.
_FLYING_BYTES_MAX: Final = 8 * MIB


class Copy:
    """One try to carry out a decision."""

    def __init__(
        self,
        decision: Decision,
        offsets: Sequence[Sequence[int]],
        *,
        source: Partition,
        destinations: Destinations,
        driver: Driver,
        turn: asyncio.Lock,
    ) -> None:
        """offsets: of the batches in the source. turn: shared by all copies of the broker."""
        self._decision = decision
        self._offsets = offsets
        self._source = source
        self._all_destinations = destinations
        self._driver = driver
        self._turn = turn
        self._destinations: dict[tuple[str, str, int], Destination] = {}
        self._flying = _Flying()

    async def run(self) -> None:
        """Returns when all of it is committed. PenstockError: some of it may be, and is not copied
        again by the next try."""
        for first, end in _runs(self._offsets):
            offset = first
            while offset < end:
                async with self._turn:
                    offset = self._copy_chunk(offset, end)
                    # Everybody else has a turn, before another chunk of any copy.
                    await asyncio.sleep(0)
                await self._flying.settle(_FLYING_BYTES_MAX)
        await self._flying.settle(0)

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
        try:
            while position < len(part) and offset < limit:
                position, staged, batch = unwrap(part, position)
                self._copy_batch(staged, batch)
                offset += 1
        finally:
            # Also what was proposed before an error: its bytes are needed until here only.
            self._driver.end_turn()
        self._flying.raise_error()
        return offset

    def _copy_batch(self, staged: StagedBatch, batch: bytearray) -> None:
        destination = self._destination(staged)
        header = read_header(batch)
        epoch, sequence = destination.number(header.record_count)
        header = header._replace(
            producer_id=self._decision.producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        write_header(batch, header)
        if destination.append(header, batch, _Appended(self._flying, len(batch))):
            self._flying.count(len(batch))

    def _destination(self, staged: StagedBatch) -> Destination:
        key = (staged.topic, staged.topic_id, staged.partition)
        destination = self._destinations.get(key)
        if destination is None:
            destination = self._all_destinations.find(staged, self._decision.producer_id)
            self._destinations[key] = destination
        return destination


class _Flying:
    """What was proposed and is not committed yet."""

    def __init__(self) -> None:
        self._bytes = 0
        self._error: PenstockError | None = None
        self._news = asyncio.Event()

    def count(self, size_bytes: int) -> None:
        self._bytes += size_bytes

    def finished(self, size_bytes: int, error: PenstockError | None) -> None:
        self._bytes -= size_bytes
        self._error = self._error or error
        self._news.set()

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    async def settle(self, bytes_max: int) -> None:
        """Wait until at most so much is left."""
        self.raise_error()
        while self._bytes > bytes_max:
            self._news.clear()
            await self._news.wait()
            self.raise_error()


class _Appended(Append):
    """A batch on its way into its partition."""

    __slots__ = ("_flying", "_size_bytes")

    def __init__(self, flying: _Flying, size_bytes: int) -> None:
        super().__init__()
        self._flying = flying
        self._size_bytes = size_bytes

    def finished(self, error: PenstockError | None) -> None:
        if isinstance(error, UnknownTopic):
            # Whoever wrote is not to blame: the next try passes over what was deleted.
            error = Busy(f"A topic was deleted while it was written to: {error}")
        self._flying.finished(self._size_bytes, error)


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
