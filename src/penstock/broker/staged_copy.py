"""From `__staged` to the partitions: one decided epoch, its batches in order, each once.

The copy is an idempotent produce, under the decision's own producer id: a batch that a partition
has already is not written again, so a copy that was cut short anywhere goes on where it stopped.
The invariants: a partition gets the batches of the attempts in the order in which the decision
names them, and of each in the order in which they were staged, numbered without a gap; the loop is
never held for longer than one chunk, whatever there is to copy and however many copies run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from penstock.broker.partition import Append, Partition
from penstock.broker.partitions import Partitions
from penstock.broker.staged_batch import unwrap
from penstock.coordination.staging.records import Decision, StagedBatch
from penstock.model.errors import CorruptLog, PenstockError, StorageFailed
from penstock.model.limits import MIB
from penstock.net.clock import Clock
from penstock.records.header import APPEND_TIME_FLAG, read_header, write_header
from penstock.registry.api import Registry
from penstock.replication.driver import Driver

logger = logging.getLogger(__name__)

# Read, numbered and written in one go: a few milliseconds, by size or by number.
_CHUNK_BYTES: Final = 1 * MIB
_CHUNK_BATCHES: Final = 100
# Written and not committed yet: so that the disk is busy while the next chunk is read.
_FLYING_BYTES_MAX: Final = 8 * MIB
_SEQUENCE_MAX: Final = 2**31 - 1


class Copy:
    """One try to carry out a decision."""

    def __init__(
        self,
        decision: Decision,
        offsets: Sequence[Sequence[int]],
        *,
        source: Partition,
        partitions: Partitions,
        registry: Registry,
        driver: Driver,
        clock: Clock,
        turn: asyncio.Lock,
    ) -> None:
        """offsets: of the batches in the source. turn: shared by all copies of the broker."""
        self._decision = decision
        self._offsets = offsets
        self._source = source
        self._partitions = partitions
        self._registry = registry
        self._driver = driver
        self._clock = clock
        self._turn = turn
        self._destinations: dict[tuple[str, str, int], _Destination] = {}
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
        for destination in self._destinations.values():
            await destination.committed()

    def forget_producer(self) -> None:
        """When nobody will ask again how far it came: one for each epoch would soon be more than a
        partition remembers, and others would be forgotten for them."""
        for destination in self._destinations.values():
            try:
                partition = destination.find()
            except PenstockError:
                continue  # offline, and read again when it comes back
            if partition is not None:
                partition.producers.forget(self._decision.producer_id)

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
        partition = destination.find()
        if partition is None:
            return
        place = (epoch, sequence + header.record_count - 1)
        last = partition.producers.last_batch(self._decision.producer_id)
        if last is not None and place <= last:
            return
        header = header._replace(
            producer_id=self._decision.producer_id, producer_epoch=epoch, base_sequence=sequence
        )
        if partition.config.timestamp_type == "append":
            header = header._replace(
                attributes=header.attributes | APPEND_TIME_FLAG,
                max_timestamp_ms=self._clock.now_ms(),
            )
        write_header(batch, header)
        append = _Appended(self._flying, len(batch))
        partition.append_sequenced(header, memoryview(batch), append)
        self._flying.count(len(batch))

    def _destination(self, staged: StagedBatch) -> _Destination:
        key = (staged.topic, staged.topic_id, staged.partition)
        destination = self._destinations.get(key)
        if destination is None:
            destination = _Destination(staged, self._partitions, self._registry)
            self._destinations[key] = destination
        return destination


class _Destination:
    """A partition that gets some of the batches, and how many it has got of this copy."""

    def __init__(self, staged: StagedBatch, partitions: Partitions, registry: Registry) -> None:
        self._topic = staged.topic
        self._topic_id = staged.topic_id
        self._number = staged.partition
        self._partitions = partitions
        self._registry = registry
        self._is_gone = False
        # The producer's epoch and next sequence. Another epoch begins where the numbers end, so
        # that of two batches the later one always has the larger pair.
        self._epoch = 0
        self._sequence = 0

    def number(self, count: int) -> tuple[int, int]:
        """The producer epoch and the first sequence of the next batch."""
        if self._sequence + count > _SEQUENCE_MAX:
            self._epoch += 1
            self._sequence = 0
        sequence = self._sequence
        self._sequence += count
        return self._epoch, sequence

    def find(self) -> Partition | None:
        """The partition; None if its topic was deleted, as rows that were written before are."""
        if self._is_gone:
            return None
        topic = self._registry.image.topics.get(self._topic)
        if topic is None or topic.deleting or topic.id != self._topic_id:
            logger.warning(
                "Topic %s was deleted before all that was staged for it could be written.",
                self._topic,
            )
            self._is_gone = True
            return None
        return self._partitions.find(self._topic, self._number)

    async def committed(self) -> None:
        """Wait until all that an earlier try may have written is committed too."""
        partition = self.find()
        if partition is None:
            return
        over: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()

        def done(error: PenstockError | None) -> None:
            if not over.done():
                over.set_result(error)

        replica = partition.replica
        if replica.failure is not None:
            # It has cut off what it could not flush, so where its log ends says nothing any more.
            raise StorageFailed(replica.failure.message)
        replica.when_committed(replica.log.next_offset, done)
        error = await over
        if error is not None:
            raise error


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
