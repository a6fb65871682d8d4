"""The partitions this broker holds: opened from the data folder, found by name, closed, deleted.

The invariant: a partition whose log cannot be opened is offline with its reason, and the others
are served all the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Iterable

from penstock.broker import producer_snapshot
from penstock.broker.clean_stop import CleanEnds, leave_clean_ends, take_clean_ends
from penstock.broker.partition import Partition
from penstock.coordination.producer_state import ProducerState
from penstock.model.errors import (
    InvalidTopic,
    StorageError,
    StorageFailed,
    UnknownTopic,
)
from penstock.model.ids import PartitionId, TopicId, TopicPartition, check_topic_name
from penstock.model.removal import DeletedPartition, DeletedTopic
from penstock.model.topic_config import TopicConfig
from penstock.raft.membership import Membership
from penstock.registry.image import TopicImage
from penstock.replication.replica import Replica
from penstock.replication.transport import Surroundings
from penstock.storage.files import Directory, typed
from penstock.storage.log import Log, LogConfig

logger = logging.getLogger(__name__)


class Partitions:
    """The table of local partitions. One per broker."""

    def __init__(self, data: Directory, around: Surroundings) -> None:
        self._data = data
        try:
            self._topics = data.subdirectory("topics")
            self._trash = data.subdirectory("trash")
            data.flush()
        except OSError as error:
            raise typed(error, f"making the folders in {data.path}") from error
        self._around = around
        self._flusher = around.flusher
        self._clock = around.clock
        self._open: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], StorageError] = {}
        self._clean_ends: CleanEnds = {}
        self._was_clean = False
        self.is_closing = False
        # Of staged writes that are not done: no partition forgets these. To be filled before the
        # partitions that have them are opened.
        self.kept_producers: set[int] = set()

    def begin(self) -> None:
        """Before the first `open`: take the mark of the last stop, finish its deletions."""
        clean_ends = take_clean_ends(self._data)
        self._was_clean = clean_ends is not None
        self._clean_ends = clean_ends or {}
        self.empty_trash()

    def find(self, topic: str, partition: int) -> Partition:
        """The partition, or why it cannot be used."""
        found = self._open.get((topic, partition))
        if found is None or not found.is_open:
            raise self._why_not(topic, partition)
        return found

    def all(self) -> list[Partition]:
        return list(self._open.values())

    def open_found(self, topic: TopicImage, config: TopicConfig) -> None:
        """At start: open the topic's partitions as they are found."""
        try:
            # After a crash nobody knows whether the names that are there are on the disk.
            self._make_folders(topic.name, len(topic.partitions), flush=not self._was_clean)
        except StorageError as error:
            logger.error("Topic %s is offline: %s", topic.name, error)
            for number in range(len(topic.partitions)):
                self._offline[topic.name, number] = error
            return
        for number in range(len(topic.partitions)):
            name = TopicPartition(topic.name, number)
            try:
                self._open[name] = self._open_partition(name, topic.id, config)
            except StorageError as error:
                logger.error("%s is offline: %s", name, error)
                self._offline[name] = error

    async def open_new(
        self, topic: TopicImage, numbers: range, config: TopicConfig
    ) -> list[TopicPartition]:
        """Make and open partitions that the topic did not have; all of them, or none. Nobody finds
        them before `serve`."""
        await asyncio.to_thread(self._make_folders, topic.name, numbers.stop, flush=True)
        names = [TopicPartition(topic.name, number) for number in numbers]
        try:
            for name in names:
                partition = self._open_partition(name, topic.id, config)
                partition.is_open = False
                self._open[name] = partition
        except StorageError:
            self.discard(names)
            raise
        return names

    def serve(self, names: Iterable[TopicPartition]) -> None:
        """Let new partitions be found."""
        for name in names:
            self._open[name].is_open = True

    def discard(self, names: Iterable[TopicPartition]) -> None:
        """Let partitions go as they are."""
        for name in names:
            partition = self._open.pop(name, None)
            if partition is not None:
                partition.is_open = False
                partition.replica.discard()

    def _make_folders(self, topic: str, count: int, *, flush: bool) -> None:
        """The folders of a topic's partitions, where they are missing. It flushes, so it is for a
        thread unless they are there already."""
        try:
            flush = flush or not self._topics.exists(topic)
            folder = self._topics.subdirectory(topic)
            for name in map(str, range(count)):
                if not folder.exists(name):
                    folder.subdirectory(name)
                    flush = True
            if flush:
                folder.flush()
                self._topics.flush()
        except OSError as error:
            raise typed(error, f"making the folders of topic {topic}") from error

    def configure(self, topic: str, config: TopicConfig) -> None:
        """Let the topic's partitions here follow its new settings."""
        for partition in self._of_topic(topic):
            partition.config = config
            partition.replica.log.config = _log_config(config)
            partition.replica.set_durability(config.durability)

    def as_deleted(self, topic: TopicImage) -> DeletedTopic:
        """What is remembered of the topic if it is deleted now."""
        return DeletedTopic(
            name=topic.name,
            topic_id=topic.id,
            at_ms=self._clock.now_ms(),
            partitions=tuple(
                DeletedPartition(
                    partition.name.partition,
                    partition.replica.log.start_offset,
                    partition.replica.high_watermark,
                )
                for partition in self._of_topic(topic.name)
            ),
        )

    async def delete(self, topic: str) -> None:
        """Close the topic's partitions and move its folder to the trash. May be repeated."""
        partitions = self._of_topic(topic)
        for partition in partitions:
            partition.is_open = False
            partition.wake_all()
        for partition in partitions:
            await _idle(partition)
        self.discard([partition.name for partition in partitions])
        for name in [name for name in self._offline if name[0] == topic]:
            del self._offline[name]
        await asyncio.to_thread(self._move_to_trash, topic)

    def _move_to_trash(self, topic: str) -> None:
        try:
            if self._topics.exists(topic):
                self._topics.move(topic, self._trash, f"{topic}.{uuid.uuid4().hex}")
                self._trash.flush()
                self._topics.flush()
        except OSError as error:
            raise typed(error, f"removing the folder of topic {topic}") from error

    def empty_trash(self) -> None:
        """Give back the room of deleted topics. Large files take a while: for a thread."""
        try:
            for name in self._trash.names():
                with contextlib.suppress(FileNotFoundError):  # another deletion was faster
                    self._trash.remove_tree(name)
        except OSError as error:
            logger.warning("The trash is not empty yet: %s", error)

    def folders(self) -> dict[str, int]:
        """The topics found as folders, and how many partitions each has there."""
        found: dict[str, int] = {}
        for topic in self._topics.names():
            try:
                check_topic_name(topic)
            except InvalidTopic:
                logger.warning("The folder %r among the topics is left alone: no topic", topic)
                continue
            try:
                names = self._topics.subdirectory(topic, create=False).names()
            except OSError as error:
                logger.warning("%r among the topics is left alone: %s", topic, error)
                continue
            numbers = [int(name) for name in names if name.isdecimal()]
            if numbers:
                found[topic] = max(numbers) + 1
        return found

    def begin_closing(self) -> None:
        """Long polls are answered with what there is, and no new ones wait."""
        self.is_closing = True
        for partition in self.all():
            partition.wake_all()

    async def close(self) -> None:
        """Make everything durable and leave the mark of an orderly stop."""
        ends: CleanEnds = {}
        for partition in self.all():
            partition.is_open = False
            await _idle(partition)
            try:
                clean_end = partition.replica.close()
            except StorageError as error:
                logger.error("%s did not close cleanly: %s", partition.name, error)
                continue
            if clean_end is not None:
                ends[partition.name] = (clean_end, partition.producers.encode())
        self._open.clear()
        try:
            leave_clean_ends(self._data, ends)
        except StorageError as error:
            logger.error("No mark of the orderly stop is left, so the next start reads: %s", error)

    def save_producers(self, partition: Partition) -> None:
        """Write who produces to the partition, so that recovery reads only what came after."""
        producer_snapshot.save(partition, self.folder(partition.name), self._flusher)

    def _open_partition(
        self, name: TopicPartition, topic_id: TopicId, config: TopicConfig
    ) -> Partition:
        folder = self.folder(name)
        clean_end, clean_producers = self._clean_ends.pop(name, (None, b""))
        log = Log.open(folder, _log_config(config), clean_end=clean_end)
        log.explain_cut(self._clock.now_ms())
        is_clean = clean_end is not None and clean_end.next_offset == log.next_offset
        replica = Replica(
            str(name),
            PartitionId(topic_id, name.partition),
            log,
            folder,
            initial=Membership(frozenset({self._around.me})),
            durability=config.durability,
            around=self._around,
            may_lack=config.durability == "os" and not is_clean,
        )

        def recover_producers() -> ProducerState:
            nonlocal is_clean
            if is_clean:
                # What the last stop left holds once: from now on the log tells of more.
                is_clean = False
                return ProducerState.decode(clean_producers, self.kept_producers)
            return producer_snapshot.recover(
                folder, topic_id, log, self._clock.now_ms(), self.kept_producers
            )

        partition = Partition(name, topic_id, config, replica, recover_producers, self._clock)
        replica.snapshot = lambda: producer_snapshot.take(partition)
        replica.start()
        return partition

    def folder(self, name: TopicPartition) -> Directory:
        """Where the partition's files are."""
        topic = self._topics.subdirectory(name.topic, create=False)
        return topic.subdirectory(str(name.partition), create=False)

    def _of_topic(self, topic: str) -> list[Partition]:
        return [partition for partition in self._open.values() if partition.name.topic == topic]

    def _why_not(self, topic: str, partition: int) -> StorageError | UnknownTopic:
        error = self._offline.get((topic, partition))
        if error is not None:
            return StorageFailed(f"{topic}-{partition} is offline: {error.message}")
        return UnknownTopic(
            f"There is no partition {partition} of a topic {topic!r} here: "
            f"see `penstock topics describe {topic}`."
        )


async def _idle(partition: Partition) -> None:
    await partition.no_compaction.wait()
    idle = asyncio.get_running_loop().create_future()
    # Whoever waits may have been cancelled by then.
    partition.replica.when_idle(lambda: None if idle.done() else idle.set_result(None))
    await idle


def _log_config(config: TopicConfig) -> LogConfig:
    # Only sealed segments are compacted, so one must be sealed before its messages wait too long.
    lag_ms = config.max_compaction_lag_ms if config.is_compacted else config.segment_ms
    return LogConfig(
        segment_bytes=config.segment_bytes,
        segment_ms=min(config.segment_ms, lag_ms),
        index_interval_bytes=config.index_interval_bytes,
    )
