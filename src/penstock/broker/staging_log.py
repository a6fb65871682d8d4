"""The two internal topics of staged writes: made when first needed, written, read, shortened.

`__staged` keeps the batches, one a record and an offset; `__writes` keeps what was decided, by
name. Not what either means: that is `coordination.staging`. The invariant: whoever waits for a
record is told once, without an error only when it is durable.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from penstock.broker.group_snapshot import KeyAndValue, build_batches, read_log
from penstock.broker.partition import Partition
from penstock.broker.partitions import Partitions
from penstock.broker.staged_batch import STAGED_HEAD_BYTES, read_key
from penstock.broker.topics import Topics
from penstock.coordination.staging.records import STAGED_TOPIC, WRITES_TOPIC, StagedBatch
from penstock.model.errors import PenstockError, StorageError, StorageFailed, UnknownTopic
from penstock.model.limits import KIB, MIB
from penstock.net.clock import Clock
from penstock.records.header import read_header
from penstock.replication.driver import Driver
from penstock.replication.flusher import Flusher
from penstock.replication.replica import Done

logger = logging.getLogger(__name__)

_STAGED_SETTINGS: Final = {
    "durability": "fsync",
    # What may go is for the writes to say.
    "cleanup_policy": "none",
    # Room is given back by whole segments, and the last one is left.
    "segment_bytes": str(64 * MIB),
    "segment_ms": str(10 * 60 * 1000),
}
_WRITES_SETTINGS: Final = {
    "durability": "fsync",
    "cleanup_policy": "compact",
    "segment_bytes": str(16 * MIB),
}
Told = asyncio.Future[PenstockError | None]
"""Is told how an append ended."""

# At a start: batches that are smaller are read together, of larger ones only the beginning.
_READ_BYTES: Final = 64 * KIB


class StagingLog:
    """One per broker. All calls come from the event loop."""

    def __init__(
        self,
        topics: Topics,
        partitions: Partitions,
        *,
        driver: Driver,
        flusher: Flusher,
        clock: Clock,
    ) -> None:
        self._topics = topics
        self.partitions = partitions
        self.driver = driver
        self._flusher = flusher
        self.clock = clock
        self._making = asyncio.Lock()
        self._is_trimming = False

    # --- the topics ----------------------------------------------------------------------------

    @property
    def staged(self) -> Partition:
        return self.partitions.find(STAGED_TOPIC, 0)

    @property
    def is_made(self) -> bool:
        """Whether both topics are there, if perhaps damaged."""
        try:
            self.partitions.find(STAGED_TOPIC, 0)
            self.partitions.find(WRITES_TOPIC, 0)
        except UnknownTopic:
            return False
        except StorageError:
            return True
        return True

    @property
    def failure(self) -> StorageError | None:
        """Why nothing can be decided any more, if so."""
        try:
            return self.partitions.find(WRITES_TOPIC, 0).replica.failure
        except UnknownTopic:
            return None
        except StorageError as error:
            return error

    async def make(self) -> None:
        """Make the topics, or give those of an earlier version the settings that are needed now."""
        async with self._making:
            await self._topics.keep_internal(STAGED_TOPIC, _STAGED_SETTINGS)
            await self._topics.keep_internal(WRITES_TOPIC, _WRITES_SETTINGS)
        if not self.is_made:
            # The registry has a topic of which nothing else could be made, nor that be taken back.
            raise StorageFailed(
                f"{STAGED_TOPIC} and {WRITES_TOPIC} are half made since the disk failed or was "
                "full: restart the broker, which finishes it."
            )

    # --- writing -------------------------------------------------------------------------------

    def stage(self, batch: memoryview, done: Done) -> int:
        """Append to `__staged` with this turn; the offset, which holds if there is no error."""
        return self.staged.replica.propose(read_header(batch), batch, done)

    @property
    def durable_offset(self) -> int:
        """What stands before it in `__staged` is durable."""
        try:
            return self.staged.replica.high_watermark
        except UnknownTopic:
            return 0

    def mark(self, marks: Sequence[memoryview]) -> Told:
        """Append to `__staged` now; the future is told when all of it is durable."""
        return self._append(self.staged, marks)

    def write(self, records: Iterable[KeyAndValue]) -> Told:
        """Append to `__writes` now. The future is told when the records are durable: what this
        appends comes before what a later call does, whoever waits for what."""
        batches = build_batches(records, self.clock.now_ms())
        writes = self.partitions.find(WRITES_TOPIC, 0)
        return self._append(writes, [memoryview(batch) for batch in batches])

    def _append(self, partition: Partition, batches: Sequence[memoryview]) -> Told:
        told: Told = asyncio.get_running_loop().create_future()

        def done(error: PenstockError | None) -> None:
            if not told.done():  # whoever waited may be gone
                told.set_result(error)

        # All in one turn, which is written whole or not at all: the last one's end is enough.
        *before, last = batches
        for batch in before:
            partition.replica.propose(read_header(batch), batch, None)
        partition.replica.propose(read_header(last), last, done)
        self.driver.end_turn()
        return told

    # --- reading -------------------------------------------------------------------------------

    def read_decisions(self, apply: Callable[[bytes, bytes | None], None]) -> None:
        """Every record of `__writes`, in order."""
        try:
            writes = self.partitions.find(WRITES_TOPIC, 0)
        except UnknownTopic:
            return
        for _ in read_log(writes, 0, lambda key, value, _: apply(key, value)):
            """It is read to the end."""

    def read_staged(self, apply: Callable[[StagedBatch, int, int], None]) -> None:
        """Every record of `__staged`, in order: the key, the offset and the time of each."""
        try:
            replica = self.staged.replica
        except UnknownTopic:
            return
        offset = replica.log.start_offset
        while offset < replica.high_watermark:
            part = replica.read(offset, _READ_BYTES)
            is_whole = part.length <= _READ_BYTES
            data = (part if is_whole else part.head(STAGED_HEAD_BYTES)).read()
            position = 0
            while position < len(data):
                header, staged = read_key(data, position)
                apply(staged, header.base_offset, header.max_timestamp_ms)
                offset = header.next_offset
                position += header.length if is_whole else len(data)

    # --- making room ---------------------------------------------------------------------------

    def trim(self, low_offset: int | None, *, is_due: bool = False) -> None:
        """Let go of what lies before the oldest batch that is needed (None: none is), when that
        frees a file, or it is due in any case."""
        try:
            replica = self.staged.replica
        except PenstockError:
            return
        log = replica.log
        low_offset = replica.high_watermark if low_offset is None else low_offset
        sealed = log.sealed_segments()
        frees = bool(sealed) and sealed[0].next_offset <= low_offset
        if self._is_trimming or low_offset <= log.start_offset or not (frees or is_due):
            return

        def trimmed(error: PenstockError | None) -> None:
            self._is_trimming = False
            if error is not None:
                logger.warning("%s keeps what nobody needs: %s", STAGED_TOPIC, error)
                return
            try:
                # It has no producers, so nothing need be saved of them first.
                for job in log.delete_before(low_offset):
                    self._flusher.submit(job, lambda: None)
            except StorageError as problem:
                logger.warning("%s keeps what nobody needs: %s", STAGED_TOPIC, problem)

        self._is_trimming = True
        try:
            replica.delete_before(low_offset, trimmed)
        except PenstockError as error:
            trimmed(error)


async def durable(told: Told) -> None:
    """Wait for it, and raise what it failed by."""
    error = await told
    if error is not None:
        raise error
