"""The internal topic that holds the groups: written one batch of records after the other, read by
whoever begins to lead it, shortened by snapshots.

Not what the records mean. The invariants: nothing is written by who has not read all that others
wrote, so in no other term than that of the reading; `done` of an append is called once, without an
error only when all its records are durable, and with one only when none of them will be read again,
unless it is NotLeader: then nobody here can tell.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import Final

from penstock.broker.groups.snapshot import SnapshotJob, build_batches, read_log, read_snapshot
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.internal import OwnTopic
from penstock.broker.topics.topics import Topics
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Record
from penstock.coordination.group.records import OFFSETS_TOPIC
from penstock.coordination.group.table import Checkpoint
from penstock.model.errors import (
    CorruptLog,
    NotLeader,
    PenstockError,
    StorageError,
    UnknownTopic,
)
from penstock.model.limits import GROUP_RECORD_BYTES_MAX, MIB
from penstock.net.clock import Clock
from penstock.records.header import read_header
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher

logger = logging.getLogger(__name__)

Done = Callable[[PenstockError | None], None]

_SETTINGS: Final = {
    "durability": "fsync",
    "cleanup_policy": "compact",
    "segment_bytes": str(16 * MIB),
    "batch_bytes_max": str(GROUP_RECORD_BYTES_MAX + MIB),
    # A snapshot that is older is not believed: tombstones after it may be gone.
    "delete_retention_ms": str(24 * 60 * 60 * 1000),
}
# So many records are read at a start in a tenth of a second.
_SNAPSHOT_RECORDS: Final = 10_000


class GroupLog:
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
        self._partitions = partitions
        self._own = OwnTopic(OFFSETS_TOPIC, topics, partitions)
        self._driver = driver
        self._flusher = flusher
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._making: asyncio.Task[None] | None = None
        # In which this broker led the topic when it was read; None before that.
        self._term: int | None = None
        self._is_writing = False
        self._is_saving = False
        # How much a start would have to read behind the last snapshot.
        self._records_since_snapshot = 0
        self._snapshot_records = 0

    @property
    def failure(self) -> StorageError | None:
        """Why nothing more can be written."""
        return self._own.failure

    @property
    def is_led(self) -> bool:
        """Whether it is for this broker to read."""
        return self._own.is_led

    @property
    def is_current(self) -> bool:
        """Whether what was read is all there is, since nobody else can have written after it."""
        return self._own.is_read_in(self._term)

    @property
    def is_alone(self) -> bool:
        """Whether nobody else can come to lead without this broker's knowing."""
        try:
            return self._own.partition.replica.is_alone
        except UnknownTopic:
            return self.is_led
        except StorageError:
            return False

    @property
    def is_making(self) -> bool:
        """Whether the topic is being made, for what is being appended."""
        return self._making is not None

    def watch(self, changed: Callable[[], None]) -> None:
        """Have it told when this broker may have begun or ceased to lead the topic."""

        def look(partition: Partition, is_leader: bool) -> None:
            del is_leader  # by now it may be otherwise
            if partition.name == (OFFSETS_TOPIC, 0):
                changed()

        self._partitions.watch_leadership(look)

    async def start(self) -> None:
        """Give a topic of an earlier version the settings that are needed now."""
        if self._own.is_here and self.is_led:
            try:
                await self.make()
            except PenstockError as error:
                logger.warning("%s keeps its settings: %s", OFFSETS_TOPIC, error)

    async def make(self) -> None:
        """Make the topic, if there is none."""
        await self._topics.keep_internal(OFFSETS_TOPIC, _SETTINGS)

    def read(self, make: Callable[[], Coordinator]) -> Generator[None, None, Coordinator]:
        """The groups as the topic says they are: the last snapshot, and what came after it. Others
        have a turn now and then."""
        self._term = self._own.term
        self._records_since_snapshot = 0
        groups = make()
        try:
            partition = self._own.partition
        except UnknownTopic:
            return groups
        apply, now_ms = groups.table.apply, self._clock.now_ms()
        try:
            offset = yield from read_snapshot(partition, self._own.folder, apply, now_ms)
        except CorruptLog as error:
            logger.warning("The whole log of the groups is read: %s", error)
            groups, offset = make(), None
        count = yield from read_log(partition, offset or 0, groups.table.apply)
        self._records_since_snapshot = count
        return groups

    def append(
        self, records: Sequence[Record], done: Done, checkpoint: Callable[[], Checkpoint]
    ) -> None:
        """Write the records; one append at a time. `checkpoint` gives the groups as they are with
        these records, if it is time for a snapshot."""
        assert not self._is_writing, "one append at a time"
        self._is_writing = True
        if not self.is_current:
            self._finished(NotLeader(), 0, done)
            return
        try:
            self._propose(self._own.partition, records, done, checkpoint)
        except UnknownTopic:
            self._making = self._loop.create_task(self._make(records, done, checkpoint))
        except PenstockError as error:
            self._finished(error, 0, done)

    async def stop(self, checkpoint: Callable[[], Checkpoint]) -> None:
        """Leave a snapshot of the groups, so that the next start reads nothing else."""
        if self._making is not None:
            await asyncio.wait([self._making])
        is_idle = not self._is_writing and not self._is_saving
        if self._records_since_snapshot and is_idle and self.is_current:
            saved = self._loop.create_future()
            partition = self._own.partition
            end_offset = partition.replica.high_watermark
            self._save(partition, checkpoint(), end_offset, lambda: saved.set_result(None))
            await saved

    async def _make(
        self, records: Sequence[Record], done: Done, checkpoint: Callable[[], Checkpoint]
    ) -> None:
        """The first records of all: there is no topic for them yet."""
        try:
            await self.make()
            self._take_over()
            self._propose(self._own.partition, records, done, checkpoint)
        except PenstockError as error:
            self._finished(error, 0, done)
        finally:
            self._making = None

    def _take_over(self) -> None:
        """Of a topic that was just made. NotLeader if others may have written to it first."""
        term = self._own.term
        if term is None:
            raise NotLeader(f"{OFFSETS_TOPIC} is led by another broker: ask again which one.")
        if not self._own.is_unwritten:
            raise NotLeader(f"{OFFSETS_TOPIC} was written by another broker first: try again.")
        self._term = term

    def _propose(
        self,
        partition: Partition,
        records: Sequence[Record],
        done: Done,
        checkpoint: Callable[[], Checkpoint],
    ) -> None:
        replica = partition.replica
        pairs = ((record.key, record.value) for record in records)
        batches = build_batches(pairs, self._clock.now_ms())
        *before, last = [memoryview(batch) for batch in batches]
        count = len(records)
        # Not before as many have come as it would write, so that each costs twice at most.
        is_due = self._records_since_snapshot + count >= max(
            _SNAPSHOT_RECORDS, self._snapshot_records
        )
        taken = checkpoint() if is_due and not self._is_saving else None

        def finished(error: PenstockError | None) -> None:
            if error is None and taken is not None:
                self._save(partition, taken, end_offset, lambda: None)
                self._finished(None, 0, done)
            else:
                self._finished(error, count, done)

        # Past the partition, which checks what producers send. All in one turn, which is written
        # whole or not at all: the last one's end is enough.
        for batch in before:
            replica.propose(read_header(batch), batch, None)
        replica.propose(read_header(last), last, finished)
        end_offset = replica.log.next_offset
        self._driver.end_turn()

    def _finished(self, error: PenstockError | None, count: int, done: Done) -> None:
        if error is not None:
            # Not here, where the replica is in the midst of telling everybody.
            self._loop.call_soon(self._failed, error, done)
            return
        self._is_writing = False
        self._records_since_snapshot += count
        done(None)

    def _failed(self, error: PenstockError, done: Done) -> None:
        self._is_writing = False
        done(error)

    def _save(
        self,
        partition: Partition,
        checkpoint: Checkpoint,
        end_offset: int,
        then: Callable[[], None],
    ) -> None:
        job = SnapshotJob(partition, self._own.folder, checkpoint, end_offset, self._clock.now_ms())
        self._is_saving = True
        self._records_since_snapshot = 0
        self._snapshot_records = len(checkpoint)

        def saved() -> None:
            self._is_saving = False
            then()

        self._flusher.submit(job, saved)
