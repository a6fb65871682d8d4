"""The partitions this broker has a copy of: opened from the data folder, found by name, closed,
deleted.

Which those should be is the assignment's affair. The invariant: a partition whose log cannot be
opened is offline with its reason, and the others are served all the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.broker.partitions import producer_snapshot
from penstock.broker.partitions.clean_stop import CleanEnds, leave_clean_ends, take_clean_ends
from penstock.broker.partitions.folders import TopicFolders
from penstock.broker.partitions.opening import LeadershipWatcher, PartitionOpener, log_config
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import (
    NotLeader,
    PenstockError,
    StorageError,
    StorageFailed,
    UnknownTopic,
)
from penstock.model.ids import TopicId, TopicPartition
from penstock.model.topic_config import TopicConfig
from penstock.registry.image import TopicImage
from penstock.replication.peers.replicas import Replicas
from penstock.replication.replica.transport import Surroundings
from penstock.storage.files.files import Directory

logger = logging.getLogger(__name__)

# Each takes about a millisecond. With all of a large topic at once the broker would be silent for
# so long that the others took over what it leads.
_OPENED_PER_TURN: Final = 10


class Partitions:
    """The table of local partitions. One per broker."""

    def __init__(
        self, data: Directory, around: Surroundings, replicas: Replicas | None = None
    ) -> None:
        """replicas: where copies take part that have others elsewhere; None on a lone broker."""
        self._data = data
        self._replicas = replicas
        self.folders = TopicFolders(data, remembers_copies=replicas is not None)
        self.disk_refuses = around.disk_refuses
        self._flusher = around.flusher
        self._open: dict[tuple[str, int], Partition] = {}
        self.offline_copies: dict[tuple[str, int], StorageError] = {}
        """Those that are here and cannot be used, and why."""
        # The topics of which there are partitions here, open or not.
        self._topic_ids: dict[str, TopicId] = {}
        self._was_clean = False
        self.is_closing = False
        # Of staged writes that are not done: no partition forgets these. To be filled before the
        # partitions that have them are opened.
        self.kept_producers: set[int] = set()
        self.opener = PartitionOpener(around, self.folders, replicas, self.kept_producers)

    def begin(self) -> None:
        """Before the first `open`: take the mark of the last stop, finish its deletions."""
        clean_ends = take_clean_ends(self._data)
        self._was_clean = clean_ends is not None
        self.opener.clean_ends = clean_ends or {}
        self.folders.empty_trash()

    def find(self, topic: str, partition: int) -> Partition:
        """The partition, or why it cannot be used."""
        found = self._open.get((topic, partition))
        if found is None or not found.is_open:
            raise self._why_not(topic, partition)
        return found

    def folder(self, name: TopicPartition) -> Directory:
        """Where the partition's files are."""
        return self.folders.folder(name)

    def get(self, topic: str, partition: int) -> Partition | None:
        """This broker's copy, if it has one that is open."""
        found = self._open.get((topic, partition))
        return found if found is not None and found.is_open else None

    def watch_leadership(self, callback: LeadershipWatcher) -> None:
        """Have each change of who leads a partition here told, in a turn of its own: by then
        another may have followed it."""
        self.opener.leadership_watchers.append(callback)

    def all(self) -> list[Partition]:
        return list(self._open.values())

    @property
    def topic_ids(self) -> dict[str, TopicId]:
        """The topics of which there are partitions here, open or offline."""
        return dict(self._topic_ids)

    def has(self, topic: str, partition: int) -> bool:
        """Whether it is here, open or offline."""
        return (topic, partition) in self._open or (topic, partition) in self.offline_copies

    def offline(self, topic: str) -> StorageError | None:
        """Why a partition of the topic here is offline, if one is."""
        errors = (error for name, error in self.offline_copies.items() if name[0] == topic)
        return next(errors, None)

    def open_found(self, topic: TopicImage, numbers: Sequence[int], config: TopicConfig) -> None:
        """At start: open partitions of a topic as they are found."""
        if self.folders.has(topic.name):
            # Also where all copies were let go: what they remember goes with the topic.
            self._topic_ids[topic.name] = topic.id
        numbers = self._without_lost(topic, numbers)
        if not numbers:
            return
        try:
            # After a crash nobody knows whether the names that are there are on the disk.
            self.folders.make(topic.name, topic.id, numbers, flush=not self._was_clean)
            self.folders.note_copies(topic.id, numbers)
        except StorageError as error:
            self._note_offline(topic, numbers, error)
            return
        self._open_all(topic, numbers, config)

    async def open_new(
        self, topic: TopicImage, numbers: Sequence[int], config: TopicConfig
    ) -> None:
        """Make and open partitions of the topic that this broker did not have."""
        numbers = self._without_lost(topic, numbers)
        try:
            await asyncio.to_thread(
                self.folders.make, topic.name, topic.id, numbers, flush=bool(numbers)
            )
            await asyncio.to_thread(self.folders.note_copies, topic.id, numbers)
        except StorageError as error:
            self._note_offline(topic, numbers, error)
            return
        for first in range(0, len(numbers), _OPENED_PER_TURN):
            self._open_all(topic, numbers[first : first + _OPENED_PER_TURN], config)
            await asyncio.sleep(0)

    def _without_lost(self, topic: TopicImage, numbers: Sequence[int]) -> Sequence[int]:
        """A copy whose files are gone has forgotten its votes, and may not give others."""
        lost = self.folders.lost(topic.name, topic.id, numbers)
        if lost:
            error = StorageFailed(
                "It had a copy here, whose files are gone: without them it may not vote. Stop this "
                "broker, empty its data folder and start it again: it comes back as a new one, and "
                "gets everything from the others."
            )
            self._note_offline(topic, lost, error)
        return [number for number in numbers if number not in lost]

    def _open_all(self, topic: TopicImage, numbers: Sequence[int], config: TopicConfig) -> None:
        for number in numbers:
            try:
                partition = self.opener.open(topic, number, config)
            except StorageError as error:
                self._note_offline(topic, (number,), error)
            else:
                self._topic_ids[topic.name] = topic.id
                self._open[partition.name] = partition

    def _note_offline(self, topic: TopicImage, numbers: Iterable[int], error: StorageError) -> None:
        for number in numbers:
            name = TopicPartition(topic.name, number)
            logger.error("%s is offline: %s", name, error)
            self._topic_ids[topic.name] = topic.id
            self.offline_copies[name] = error

    def configure(self, topic: str, config: TopicConfig) -> None:
        """Let the topic's partitions here follow its new settings."""
        for partition in self.of_topic(topic):
            partition.config = config
            partition.replica.log.writer.config = log_config(config)
            partition.replica.set_durability(config.durability)

    def leave_topic(self, topic: str) -> None:
        """Have nobody use the partitions of a deleted topic, or wait there. May be repeated."""
        for partition in self.of_topic(topic):
            _leave(self._replicas, partition, UnknownTopic(f"Topic {topic!r} was deleted."))

    async def close_topic(self, topic: str) -> None:
        """Let the partitions of a deleted topic go as they are. May be repeated."""
        self.leave_topic(topic)
        partitions = self.of_topic(topic)
        for partition in partitions:
            await _idle(partition)
        for partition in partitions:
            self._open.pop(partition.name, None)
            partition.replica.close()
        for name in [name for name in self.offline_copies if name[0] == topic]:
            del self.offline_copies[name]
        self._topic_ids.pop(topic, None)

    async def let_go(self, partition: Partition, memory: bytes) -> None:
        """Throw away this copy of a partition, which others have; nothing is heard of it once this
        has begun. memory: see `TopicFolders.let_go`. StorageError."""
        elsewhere = NotLeader(f"{partition.name} is on other brokers now: ask again who leads it.")
        _leave(self._replicas, partition, elsewhere)
        await _idle(partition)
        self._open.pop(partition.name, None)
        partition.replica.close()
        await asyncio.to_thread(self.folders.let_go, partition.name, memory)
        await asyncio.to_thread(self.folders.empty_trash)

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
            _unlink(self._replicas, partition)
        for partition in self.all():
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

    def of_topic(self, topic: str) -> list[Partition]:
        """Those that are open."""
        return [partition for partition in self._open.values() if partition.name.topic == topic]

    def _why_not(self, topic: str, partition: int) -> StorageError | UnknownTopic:
        error = self.offline_copies.get((topic, partition))
        if error is not None:
            return StorageFailed(f"{topic}-{partition} is offline: {error.message}")
        return UnknownTopic(
            f"There is no partition {partition} of a topic {topic!r} here: "
            f"see `penstock topics describe {topic}`."
        )


def _leave(replicas: Replicas | None, partition: Partition, reason: PenstockError) -> None:
    """Nobody finds it any more, and whoever waits there is told."""
    partition.is_open = False
    # First of all, or others would give it something to do again.
    _unlink(replicas, partition)
    partition.replica.leave(reason)
    partition.wake_all()


def _unlink(replicas: Replicas | None, partition: Partition) -> None:
    if replicas is not None:
        replicas.remove(partition.replica.partition)


async def _idle(partition: Partition) -> None:
    await partition.no_compaction.wait()
    idle = asyncio.get_running_loop().create_future()
    # Whoever waits may have been cancelled by then.
    partition.replica.idleness.when(lambda: None if idle.done() else idle.set_result(None))
    await idle
