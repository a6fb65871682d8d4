"""One of the brokers' own topics, of one partition: whether it is for this broker to write it.

Whoever writes it has read all that others wrote, so it may write in no other term than that of its
reading: its tenure. Not what is in it. The invariant: while a tenure lasts, nobody else has written
since it began.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.partitions import Partitions
from penstock.broker.topics.topics import Topics
from penstock.model.errors import StorageError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.storage.files.files import Directory

# Instead of the term of a topic that is yet to be made.
UNMADE: Final = -1


class OwnTopic:
    """As seen by this broker."""

    def __init__(self, name: str, topics: Topics, partitions: Partitions) -> None:
        self.name = name
        self._topics = topics
        self._partitions = partitions

    @property
    def partition(self) -> Partition:
        """The copy here: UnknownTopic if there is none, StorageError if it is damaged."""
        return self._partitions.find(self.name, 0)

    @property
    def folder(self) -> Directory:
        return self._partitions.folder(TopicPartition(self.name, 0))

    @property
    def is_here(self) -> bool:
        """Whether there is a copy here, if perhaps a damaged one."""
        return self._partitions.has(self.name, 0)

    @property
    def term(self) -> int | None:
        """In which this broker leads it; UNMADE if nobody has made it; None if it is another's, or
        nobody's now. StorageError if the copy here is damaged, and there is no other."""
        try:
            replica = self.partition.replica
        except UnknownTopic:
            return None if self._topics.is_known(self.name) else UNMADE
        except StorageError:
            if self._topics.is_elsewhere_too(self.name):
                return None
            raise
        return replica.term if replica.is_leader else None

    @property
    def is_led(self) -> bool:
        """Whether it is for this broker to read: it leads it, or nobody has made it yet, or the
        only copy, which is here, is damaged, of which the reading tells."""
        try:
            return self.term is not None
        except StorageError:
            return True

    @property
    def is_unwritten(self) -> bool:
        """Whether there is nothing in it but what leaders write of their own."""
        return all(header.is_control for header in self.partition.replica.log.headers(0))

    @property
    def failure(self) -> StorageError | None:
        """Why nothing more can be written, here or anywhere: where the copy here is not the only
        one, another broker is to be asked."""
        try:
            if self.term is None:
                return None
            return self.partition.replica.failure
        except UnknownTopic:
            return None
        except StorageError as error:
            return error


class Tenure:
    """This broker leads the topic, which it reads now, or nobody has made it yet: until another
    leads it, or this broker does so anew. What is looked at before each write is at hand."""

    __slots__ = ("_topic", "partition", "term")

    def __init__(self, topic: OwnTopic) -> None:
        """StorageError if the copy here is damaged, and there is no other."""
        self._topic = topic
        # None: it was over from the beginning.
        self.term = topic.term
        # None: there was none to be read.
        self.partition = None if self.term in (None, UNMADE) else topic.partition

    @property
    def lasts(self) -> bool:
        """Whether what was read is all there is."""
        partition = self.partition
        if partition is None:
            return self._is_still_unmade()
        replica = partition.replica
        return replica.is_leader and replica.term == self.term and partition.is_open

    def _is_still_unmade(self) -> bool:
        try:
            return self.term == UNMADE == self._topic.term
        except StorageError:
            return False
