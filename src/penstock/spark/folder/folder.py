"""A data folder as a source of messages, without a broker: for offline jobs and rescue.

Topics come from the registry's journal and, as at a broker's start, from folders it does not know;
where the journal is damaged, from the folders alone. The invariants: nothing in the folder is ever
written; the rows are those that a broker on the folder would serve. While one runs there, sealed
segments are read and the one that it is writing to is left out, with a warning.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from penstock.model.errors import CorruptLog, InvalidConfig, InvalidTopic, UnknownTopic
from penstock.model.ids import TopicPartition, check_topic_name, is_internal
from penstock.model.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.model.removal import DeletedPartition, DeletedTopic, Removal
from penstock.records import Columns
from penstock.records.header import BatchHeader
from penstock.spark.folder.log import OnDamage, PartitionLog
from penstock.spark.folder.pieces import ReadOnlyDirectory
from penstock.spark.planning.extent import Extent
from penstock.storage.files.files import typed
from penstock.storage.files.journal import read_journal
from penstock.storage.log.removals import read_entries

logger = logging.getLogger(__name__)

_TOPICS: Final = "topics"
_REGISTRY: Final = "registry.journal"
_META: Final = "meta"
_LOCK: Final = "lock"
_FORMAT_VERSION: Final = 1


class _Topic(NamedTuple):
    topic_id: str | None
    partition_count: int
    deleting: bool = False


class Folder:
    """A data folder. Pickled by its path; extents are as they were when first asked for."""

    def __init__(self, path: str, on_damage: OnDamage = "fail") -> None:
        self._path = path
        self._on_damage = on_damage
        self._found: Mapping[str, _Topic] | None = None
        self._extents: dict[TopicPartition, Extent] = {}
        self._is_held: bool | None = None

    def __reduce__(self) -> tuple[type[Folder], tuple[str, OnDamage]]:
        return Folder, (self._path, self._on_damage)

    def topics(self) -> list[str]:
        """The topics that are not a broker's own, by name."""
        return sorted(
            name
            for name, topic in self._topics().items()
            if not topic.deleting and not is_internal(name)
        )

    def partitions(self, topic: str) -> dict[int, Extent]:
        """What each partition of the topic has; UnknownTopic if there is no such topic."""
        count = self._topic(topic).partition_count
        return {number: self._extent(TopicPartition(topic, number)) for number in range(count)}

    def read_range(
        self,
        topic: str,
        partition: int,
        start: int,
        end: int,
        *,
        include_headers: bool = False,
        producer_times: bool = False,
    ) -> Iterator[Columns]:
        """The messages with start <= offset < end, in pieces: see `Client.read_range`.

        What of them was whole when the range was planned is read also if a broker runs by now.
        """
        return self._log(TopicPartition(topic, partition)).read(
            start, end, include_headers=include_headers, producer_times=producer_times
        )

    def headers(self, topic: str, partition: int, start: int, end: int) -> Iterator[BatchHeader]:
        """Of the batches with start <= offset < end, also of control batches, which have no row."""
        return self._log(TopicPartition(topic, partition)).headers(start, end)

    def find_timestamp(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """The offset of the first message at or after the time; the end if there is none."""
        name = TopicPartition(topic, partition)
        start, end = self._extent(name)[:2]
        return start if start == end else self._log(name).find_timestamp(timestamp_ms, start, end)

    def removals(self, partition: TopicPartition) -> Sequence[Removal]:
        """What left the partition and why, as far as it was noted."""
        directory = self._partition_directory(partition)
        if not os.path.isdir(directory.path):
            return ()
        return [entry.shown() for entry in read_entries(directory)]

    def deletions(self, topic: str) -> Sequence[DeletedTopic]:
        """The latest deletions of topics of this name."""
        return _deletions(self._registry(), topic)

    def _extent(self, name: TopicPartition) -> Extent:
        known = self._extents.get(name)
        if known is None:
            topic = self._topic(name.topic)
            start = end = 0
            if not 0 <= name.partition < topic.partition_count:
                raise UnknownTopic(
                    f"There is no partition {name.partition} in {name.topic!r}, which has "
                    f"{topic.partition_count}: correct its number."
                )
            if os.path.isdir(self._partition_directory(name).path):
                start, end = self._log(name).extent(sealed_only=self._held())
            known = self._extents[name] = Extent(start, end, topic.topic_id)
        return known

    def _log(self, name: TopicPartition) -> PartitionLog:
        return PartitionLog(self._partition_directory(name).path, self._on_damage)

    def _partition_directory(self, name: TopicPartition) -> ReadOnlyDirectory:
        check_topic_name(name.topic)
        return ReadOnlyDirectory(f"{self._path}/{_TOPICS}/{name.topic}/{name.partition}")

    def _held(self) -> bool:
        if self._is_held is None:
            self._is_held = _is_held(f"{self._path}/{_LOCK}")
            if self._is_held:
                logger.warning(
                    "A broker runs on %s: only its sealed segments are read, without the latest "
                    "messages. Stop it, or read through it with the option bootstrap.",
                    self._path,
                )
        return self._is_held

    def _topic(self, name: str) -> _Topic:
        topic = self._topics().get(name)
        if topic is None or topic.deleting:
            raise UnknownTopic(f"There is no topic {name!r} in {self._path}: correct its name.")
        return topic

    def _topics(self) -> Mapping[str, _Topic]:
        if self._found is None:
            self._check_format()
            in_registry = _registered(self._registry())
            in_folders = self._topic_folders()
            self._found = {**in_folders, **in_registry}
        return self._found

    def _check_format(self) -> None:
        """Raise InvalidConfig if this is no data folder, or one of a later version."""
        if not os.path.isdir(f"{self._path}/{_TOPICS}"):
            raise InvalidConfig(
                f"{self._path} is no data folder: there is no folder {_TOPICS!r} in it; give the "
                f"one that a broker was started with."
            )
        version: object = _FORMAT_VERSION
        try:
            payload = read_journal(ReadOnlyDirectory(self._path), _META)
            if payload is not None:
                version = json.loads(payload)["format_version"]
        except (CorruptLog, ValueError, LookupError, TypeError) as error:
            logger.warning("%s/%s cannot be read: %s", self._path, _META, error)
        if version != _FORMAT_VERSION:
            raise InvalidConfig(
                f"{self._path} has format {version}, and this version of Penstock knows format "
                f"{_FORMAT_VERSION}: install a later one."
            )

    def _registry(self) -> Mapping[str, Any]:
        """The facts in the registry's journal; none, with a warning, if it cannot be read."""
        try:
            payload = read_journal(ReadOnlyDirectory(self._path), _REGISTRY)
            facts = {} if payload is None else json.loads(payload)
            _registered(facts)
        except (CorruptLog, InvalidTopic, ValueError, LookupError, TypeError) as error:
            logger.warning("%s The topics are taken from the folders that are there.", error)
            return {}
        return dict(facts)

    def _topic_folders(self) -> dict[str, _Topic]:
        found = {}
        topics = ReadOnlyDirectory(f"{self._path}/{_TOPICS}")
        try:
            for name in topics.names():
                folder = f"{topics.path}/{name}"
                if _is_topic_name(name) and os.path.isdir(folder):
                    count = _partition_count(os.listdir(folder))
                    if count:
                        found[name] = _Topic(None, count)
        except OSError as error:
            raise typed(error, f"reading {topics.path}") from error
        return found


def _registered(facts: Mapping[str, Any]) -> dict[str, _Topic]:
    return {
        check_topic_name(str(entry["name"])): _Topic(
            str(entry["id"]), int(entry["partitions"]), bool(entry["deleting"])
        )
        for entry in facts.get("topics", ())
    }


def _deletions(facts: Mapping[str, Any], topic: str) -> list[DeletedTopic]:
    try:
        return [
            DeletedTopic(
                name=topic,
                topic_id=str(entry["id"]),
                at_ms=int(entry["at_ms"]),
                partitions=tuple(DeletedPartition(*map(int, each)) for each in entry["partitions"]),
            )
            for entry in facts.get("deleted_topics", ())
            if entry["name"] == topic
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []  # another version's: what it says is not needed to read


def _partition_count(names: list[str]) -> int:
    """By the highest number that may be a partition's."""
    numbers = [int(name) + 1 for name in names if name.isdecimal() and name.isascii()]
    return max((each for each in numbers if each <= PARTITIONS_PER_TOPIC_MAX), default=0)


def _is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


def _is_held(lock_path: str) -> bool:
    """Whether a broker has locked the folder, or that cannot be found out."""
    try:
        descriptor = os.open(lock_path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        # Taken for no longer than it takes to ask; closing gives it back.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
