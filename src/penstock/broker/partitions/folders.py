"""The folders of topics in the data folder: made, found, moved to the trash, set aside.

A topic's folder says which topic it is, since another of the same name may follow it while this
broker is down. What a copy that was let go must not forget stays behind, for one that is made anew
in its place. The invariant: nobody's data is thrown away unless the topic is known to have been
deleted, or others have it; a folder of a topic that nobody knows is set aside, for a person to
decide.
"""

from __future__ import annotations

import contextlib
import json
import logging
import uuid
from collections.abc import Sequence
from typing import Final

from penstock.broker.partitions.copies import Copies
from penstock.model.errors import CorruptLog, InvalidTopic, StorageFailed
from penstock.model.ids import TopicId, TopicPartition, check_topic_name
from penstock.replication.replica.saved_state import RAFT_JOURNAL
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import read_journal, remove_journal, write_journal
from penstock.storage.segments.segment import LOG_SUFFIX, open_stem

logger = logging.getLogger(__name__)

_TOPICS: Final = "topics"
_TRASH: Final = "trash"
_SET_ASIDE: Final = "set-aside"
# In a topic's folder: which topic it is.
_IDENTITY: Final = "topic.journal"
# In a topic's folder, after a partition's number: what its copy knew of Raft when it was let go.
_LEFT: Final = ".left.journal"
# What a partition begins with.
_FIRST_LOG: Final = open_stem(0) + LOG_SUFFIX


class TopicFolders:
    """One per broker. What flushes is for a thread."""

    def __init__(self, data: Directory, *, remembers_copies: bool = False) -> None:
        """remembers_copies: others have copies too, and one whose files are lost must be known."""
        self._data = data
        self._copies = Copies(data) if remembers_copies else None
        try:
            self._topics = data.subdirectory(_TOPICS)
            self._trash = data.subdirectory(_TRASH)
            data.flush()
        except OSError as error:
            raise typed(error, f"making the folders in {data.path}") from error

    def folder(self, name: TopicPartition) -> Directory:
        """Where the partition's files are."""
        topic = self._topics.subdirectory(name.topic, create=False)
        return topic.subdirectory(str(name.partition), create=False)

    def lost(self, topic: str, topic_id: TopicId, numbers: Sequence[int]) -> list[int]:
        """Those that had a copy here whose files are gone."""
        if self._copies is None:
            return []
        made = [number for number in numbers if self._copies.has(topic_id, number)]
        return [number for number in made if not self._has_files(TopicPartition(topic, number))]

    def _has_files(self, name: TopicPartition) -> bool:
        try:
            names = self.folder(name).names()
        except OSError:
            return False
        return any(each == RAFT_JOURNAL or each.endswith(LOG_SUFFIX) for each in names)

    def note_copies(self, topic_id: TopicId, numbers: Sequence[int]) -> None:
        """These are made, and may vote from now on. StorageError."""
        if self._copies is not None:
            self._copies.add(topic_id, numbers)

    def has(self, topic: str) -> bool:
        return self._topics.exists(topic)

    def make(self, topic: str, topic_id: TopicId, numbers: Sequence[int], *, flush: bool) -> None:
        """The folders of a topic's partitions, where they are missing. It flushes, unless they are
        there already and nothing else asks for it. StorageError."""
        try:
            flush = flush or not self._topics.exists(topic)
            folder = self._topics.subdirectory(topic)
            for name in map(str, numbers):
                if not folder.exists(name):
                    copy = folder.subdirectory(name)
                    if self._copies is not None:
                        # So that one that was made can be told from one that lost its files.
                        copy.open(_FIRST_LOG, create=True).close()
                    flush = True
            if flush:
                folder.flush()
                self._topics.flush()
        except OSError as error:
            raise typed(error, f"making the folders of topic {topic}") from error
        identity = self.identity(topic)
        if self._copies is not None and identity not in (None, topic_id):
            raise StorageFailed(
                f"The folder of {topic} is of another topic of that name, and could not be put "
                "away: see what is said of it before, and restart the broker."
            )
        if identity != topic_id:
            write_journal(folder, _IDENTITY, json.dumps({"id": topic_id}).encode())
        for name in map(str, numbers):
            self._remember(folder, name)

    def let_go(self, name: TopicPartition, memory: bytes) -> None:
        """Move a copy to the trash that is none any more. memory: as in its `raft.journal`, what it
        must still know if it is made anew. StorageError."""
        folder = self._topics.subdirectory(name.topic, create=False)
        write_journal(folder, f"{name.partition}{_LEFT}", memory)
        try:
            trashed = f"{name.topic}.{name.partition}.{uuid.uuid4().hex}"
            folder.move(str(name.partition), self._trash, trashed)
            self._trash.flush()
            folder.flush()
        except OSError as error:
            raise typed(error, f"removing the folder of {name}") from error
        topic_id = self.identity(name.topic)
        if self._copies is not None and topic_id is not None:
            self._copies.drop(topic_id, name.partition)

    def _remember(self, folder: Directory, number: str) -> None:
        memory = read_journal(folder, number + _LEFT)
        if memory is None:
            return
        copy = folder.subdirectory(number, create=False)
        if not copy.exists(RAFT_JOURNAL):
            write_journal(copy, RAFT_JOURNAL, memory)
        remove_journal(folder, number + _LEFT)

    def identity(self, topic: str) -> TopicId | None:
        """Which topic the folder is of; None if it does not say: earlier versions did not."""
        try:
            folder = self._topics.subdirectory(topic, create=False)
            payload = read_journal(folder, _IDENTITY)
            return None if payload is None else TopicId(str(json.loads(payload)["id"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise typed(error, f"reading the folder of topic {topic}") from error
        except (CorruptLog, ValueError, KeyError, TypeError) as error:
            logger.warning("The folder of topic %s does not say which it is: %s", topic, error)
            return None

    def move_to_trash(self, topic: str) -> None:
        """May be repeated. StorageError."""
        topic_id = self.identity(topic)
        self._move(topic, self._trash, uuid.uuid4().hex)
        if self._copies is not None and topic_id is not None:
            self._copies.drop_topic(topic_id)

    def set_aside(self, topic: str) -> None:
        """Keep the folder of a topic that nobody knows where no topic is looked for."""
        place = self._data.subdirectory(_SET_ASIDE)
        self._data.flush()
        name = self._move(topic, place, self.identity(topic) or uuid.uuid4().hex)
        logger.warning(
            "The cluster does not know the topic %s of this folder: it is kept in %s/%s",
            *(topic, place.path, name),
        )

    def _move(self, topic: str, place: Directory, ending: str) -> str:
        name = f"{topic}.{ending}"
        try:
            if self._topics.exists(topic):
                self._topics.move(topic, place, name)
                place.flush()
                self._topics.flush()
        except OSError as error:
            raise typed(error, f"removing the folder of topic {topic}") from error
        return name

    def empty_trash(self) -> None:
        """Give back the room of deleted topics. Large files take a while."""
        try:
            for name in self._trash.names():
                with contextlib.suppress(FileNotFoundError):  # another deletion was faster
                    self._trash.remove_tree(name)
        except OSError as error:
            logger.warning("The trash is not empty yet: %s", error)

    def found(self) -> dict[str, tuple[int, ...]]:
        """The topics found as folders, and which partitions each has there: none, where all copies
        were let go."""
        found: dict[str, tuple[int, ...]] = {}
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
            numbers = sorted(int(name) for name in names if name.isdecimal())
            if numbers or any(name.endswith(_LEFT) for name in names):
                found[topic] = tuple(numbers)
        return found
