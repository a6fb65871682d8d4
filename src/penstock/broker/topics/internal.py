"""One of the brokers' own topics, of one partition: whether it is for this broker to write it.

Whoever writes it has read all that others wrote, so it may write in no other term than that of its
reading. Not what is in it. The invariant: between two looks that tell the same term, nobody else
wrote.
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
        self._found: Partition | None = None

    @property
    def partition(self) -> Partition:
        """The copy here: UnknownTopic if there is none, StorageError if it is damaged."""
        found = self._found
        if found is None or not found.is_open:
            found = self._found = self._partitions.find(self.name, 0)
        return found

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

    def is_read_in(self, term: int | None) -> bool:
        """Whether who read it in that term has read all there is."""
        found = self._found
        if found is not None and found.is_open:
            return found.replica.is_leader and found.replica.term == term
        try:
            return term is not None and self.term == term
        except StorageError:
            return False

    @property
    def is_unwritten(self) -> bool:
        """Whether there is nothing in it but what leaders write of their own."""
        return all(header.is_control for header in self.partition.replica.log.headers(0))

    @property
    def failure(self) -> StorageError | None:
        """Why nothing more can be written, here or anywhere: where the copy here is not the only
        one, another broker is to be asked."""
        try:
            replica = self.partition.replica
        except UnknownTopic:
            return None
        except StorageError as error:
            return None if self._topics.is_elsewhere_too(self.name) else error
        return replica.failure if replica.is_leader else None
