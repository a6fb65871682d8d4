"""Which copies of partitions a broker of a cluster has made, written down outside their folders.

A copy has voted, and said what it has. If its files are gone it must not begin anew under the same
name: it would have forgotten its votes, and others count on what it had. So that their loss can be
told from a copy that is new. The invariant: what is written here was made, and has not been let go
or deleted in order since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicId
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

_JOURNAL: Final = "copies.journal"


class Copies:
    """One per broker. What changes it flushes, so it is for a thread."""

    def __init__(self, data: Directory) -> None:
        self._data = data
        payload = read_journal(data, _JOURNAL)
        try:
            kept = {} if payload is None else json.loads(payload)
            self._numbers = {TopicId(str(key)): set(map(int, kept[key])) for key in kept}
        except (ValueError, TypeError) as error:
            raise CorruptLog(
                f"{data.path}/{_JOURNAL} cannot be understood: {error}; restore the file."
            ) from error

    def has(self, topic_id: TopicId, number: int) -> bool:
        return number in self._numbers.get(topic_id, ())

    def add(self, topic_id: TopicId, numbers: Iterable[int]) -> None:
        """Durable when this returns. StorageError."""
        known = self._numbers.get(topic_id, set())
        if not known.issuperset(numbers):
            self._replace(topic_id, known | set(numbers))

    def drop(self, topic_id: TopicId, number: int) -> None:
        """One was let go. StorageError."""
        if self.has(topic_id, number):
            self._replace(topic_id, self._numbers[topic_id] - {number})

    def drop_topic(self, topic_id: TopicId) -> None:
        """It was deleted. StorageError."""
        if topic_id in self._numbers:
            self._replace(topic_id, set())

    def _replace(self, topic_id: TopicId, numbers: set[int]) -> None:
        changed = {**self._numbers, topic_id: numbers}
        if not numbers:
            del changed[topic_id]
        payload = {key: sorted(value) for key, value in changed.items()}
        write_journal(self._data, _JOURNAL, json.dumps(payload).encode())
        self._numbers = changed
