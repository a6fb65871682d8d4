"""Keeps group offsets in the internal topic and answers from memory.

One batch is on its way at a time; commits that arrive meanwhile travel together in the next. When
the topic has grown far beyond what it says, the whole state is written once more and what came
before it is deleted. The invariant: the state in memory is what reading the topic would give.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from penstock.broker.partition import Append, Partition
from penstock.broker.partitions import Partitions
from penstock.broker.topics import Topics
from penstock.coordination.group_offsets import (
    OFFSETS_TOPIC,
    CommittedOffset,
    GroupOffsets,
    Record,
    check_commit,
    encode_commit,
)
from penstock.model.errors import (
    Busy,
    PenstockError,
    StorageFailed,
    TopicExists,
    UnknownTopic,
)
from penstock.model.limits import GROUP_OFFSETS_MAX, MIB
from penstock.net.clock import Clock
from penstock.records import BatchBuilder, decode_messages
from penstock.replication.driver import Driver

logger = logging.getLogger(__name__)

_SETTINGS: Final = {
    # A checkpoint must be on the disk before what it stands for is deleted.
    "durability": "fsync",
    "retention_ms": "-1",
    "segment_bytes": str(16 * MIB),
    "batch_bytes_max": str(MIB),
}
# Below this the topic is small enough to be read at start in no time.
_CHECKPOINT_BYTES_MIN: Final = 8 * MIB
# Records per live offset at which rewriting the state pays.
_CHECKPOINT_RATIO: Final = 8
_BATCH_BYTES: Final = MIB // 2
_READ_BYTES: Final = 4 * MIB


class GroupOffsetsStore:
    """One per broker, on the leader of the internal topic."""

    def __init__(
        self, topics: Topics, partitions: Partitions, driver: Driver, clock: Clock
    ) -> None:
        self._topics = topics
        self._partitions = partitions
        self._driver = driver
        self._clock = clock
        self._state = GroupOffsets()
        self._queue: list[tuple[list[Record], asyncio.Future[None]]] = []
        self._writing = False
        # Everything before it in the topic is said again after it.
        self.checkpoint_offset = 0
        # Why the internal topic could not be read; then nobody is told a wrong offset.
        self._failure: PenstockError | None = None

    def groups(self) -> list[str]:
        self._check()
        return self._state.groups()

    def of_group(self, group: str, topics: frozenset[str]) -> list[CommittedOffset]:
        self._check()
        return [
            offset for offset in self._state.of_group(group, topics) if not self._is_gone(offset)
        ]

    def load(self) -> None:
        """At start: read the internal topic from its beginning. If it is damaged, the broker
        serves everything but group offsets."""
        try:
            self._read_topic()
            self._state.forget(self._is_gone)
        except UnknownTopic:
            return
        except (PenstockError, ValueError, KeyError) as error:
            logger.error("Group offsets cannot be served: %s", error)
            self._failure = StorageFailed(f"Group offsets cannot be served: {error}")

    def _check(self) -> None:
        if self._failure is not None:
            raise StorageFailed(self._failure.message)

    def _check_room(self, group: str, offsets: Sequence[CommittedOffset]) -> None:
        """Only what a group has not committed before takes room."""
        if self._state.count + len(offsets) <= GROUP_OFFSETS_MAX:
            return
        self._state.forget(self._is_gone)
        if self._state.count + self._state.count_new(group, offsets) > GROUP_OFFSETS_MAX:
            raise Busy(f"The broker keeps {GROUP_OFFSETS_MAX} offsets of groups and no more.")

    def _is_gone(self, offset: CommittedOffset) -> bool:
        """Whether the topic it was committed for has been deleted."""
        try:
            return self._topics.find(offset.topic).id != offset.topic_id
        except UnknownTopic:
            return True

    def _read_topic(self) -> None:
        log = self._partition().replica.log
        offset = log.start_offset
        while offset < log.next_offset:
            part = log.read(offset, _READ_BYTES, log.next_offset).read()
            messages = decode_messages(part, OFFSETS_TOPIC, 0, offset)
            for message in messages:
                assert message.key is not None
                assert message.value is not None
                self._state.apply(message.key, message.value)
            offset = messages[-1].offset + 1

    async def commit(self, group: str, offsets: Sequence[CommittedOffset]) -> None:
        """Returns when they are durable."""
        for committed in offsets:
            check_commit(group, committed)
        self._check()
        if not offsets:
            return
        self._check_room(group, offsets)
        await self._ensure_topic()
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(([encode_commit(group, offset) for offset in offsets], durable))
        if not self._writing:
            self._write_queued()
        await durable

    async def _ensure_topic(self) -> None:
        try:
            self._partition()
        except UnknownTopic:
            try:
                await self._topics.create(OFFSETS_TOPIC, 1, _SETTINGS, internal=True)
            except TopicExists:
                return

    def _partition(self) -> Partition:
        return self._partitions.find(OFFSETS_TOPIC, 0)

    def _write_queued(self) -> None:
        taken, self._queue = self._queue, []
        records = [record for commit, _ in taken for record in commit]
        self._propose(_Write(self, records, [durable for _, durable in taken]))

    def _propose(self, write: _Write) -> None:
        self._writing = True
        try:
            *before, last = self._encode(write.records)
            partition = self._partition()
            # All in one turn, which is written whole or not at all: the last one's end is enough.
            for batch in before:
                partition.append(batch, _Unheard())
            partition.append(last, write)
        except PenstockError as error:
            write.finished(error)
        self._driver.end_turn()

    def _encode(self, records: list[Record]) -> list[memoryview]:
        """One or more batches."""
        now_ms = self._clock.now_ms()
        batches = []
        builder = BatchBuilder(_BATCH_BYTES)
        for key, value in records:
            if builder.append(now_ms, key, value) < 0:
                batches.append(memoryview(builder.build()))
                builder = BatchBuilder(_BATCH_BYTES)
                builder.append(now_ms, key, value)
        batches.append(memoryview(builder.build()))
        return batches

    def written(self, write: _Write, error: PenstockError | None) -> None:
        """What was on its way has arrived or failed."""
        self._writing = False
        if error is None:
            for key, value in write.records:
                self._state.apply(key, value)
            if write.checkpoint_offset is not None:
                self.checkpoint_offset = write.checkpoint_offset
        for durable in write.waiting:
            if durable.done():
                continue
            if error is None:
                durable.set_result(None)
            else:
                durable.set_exception(error)
        if self._queue:
            self._write_queued()
        elif error is None and not self._partitions.is_closing:
            try:
                self._checkpoint_if_due()
            except PenstockError as failed:
                logger.warning("Group offsets are not written anew yet: %s", failed)

    def _checkpoint_if_due(self) -> None:
        """Only here, where no commit is on its way: one that the checkpoint did not know of would
        be undone by it at the next start."""
        replica = self._partition().replica
        log = replica.log
        since = log.next_offset - max(self.checkpoint_offset, log.start_offset)
        if log.size_bytes < _CHECKPOINT_BYTES_MIN or since < _CHECKPOINT_RATIO * self._state.count:
            return
        self._state.forget(self._is_gone)
        records = list(self._state.checkpoint())
        if records:
            # The checkpoint begins a segment, so that all before it can be deleted.
            replica.roll()
            self._propose(_Write(self, records, [], checkpoint_offset=log.next_offset))


class _Write(Append):
    """Commits on their way, and who waits for them."""

    __slots__ = ("_store", "checkpoint_offset", "records", "waiting")

    def __init__(
        self,
        store: GroupOffsetsStore,
        records: list[Record],
        waiting: list[asyncio.Future[None]],
        *,
        checkpoint_offset: int | None = None,
    ) -> None:
        super().__init__()
        self._store = store
        self.records = records
        self.waiting = waiting
        self.checkpoint_offset = checkpoint_offset

    def finished(self, error: PenstockError | None) -> None:
        self._store.written(self, error)


class _Unheard(Append):
    """A batch whose end nobody needs to hear of, because a later one's tells it."""

    __slots__ = ()

    def finished(self, error: PenstockError | None) -> None:
        del error
