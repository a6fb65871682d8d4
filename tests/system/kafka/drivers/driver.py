"""What the tests ask of every client, so that a table of clients is a table of tests.

A driver has no opinion: it says what its client can, and passes on what its client does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from tests.system.kafka.messages import Message, Record

# Far more than anything here takes; a test that needs it has failed.
PATIENCE_S: Final = 60.0


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something that no event tells of. Kafka's broker learns of a change of topics from
    its controller, a moment after the client was told that it is done."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE_S:.0f} s"
        time.sleep(0.02)


class Driver(Protocol):
    """One client of one broker."""

    codecs: tuple[str, ...]
    """The compression it can write; it reads at least these."""

    def can_send(self, message: Message) -> bool:
        """Whether its interface has room for such a message."""

    def shows(self, record: Record) -> Record:
        """The record as its interface shows it, where that is less than what was stored."""

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> None:
        """Send them to partition 0 and wait for the acknowledgements. `acks`: 0, 1 or all."""

    def consume(self, counts: Mapping[str, int]) -> dict[str, list[Record]]:
        """The first so many records of each topic, from the beginning."""

    def consume_in_group(self, topic: str, group: str, count: int) -> list[Record]:
        """Join the group, go on where it had come to, or from the beginning; read so many records
        of a topic of one partition, commit, and leave."""

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        """The first offset in partition 0 whose time is not before this; None: there is none."""

    def close(self) -> None:
        """End what outlives a call."""


class WholeDriver:
    """What a client does that has room for everything a message can hold."""

    codecs: tuple[str, ...] = ("none", "gzip", "snappy", "lz4", "zstd")

    def can_send(self, message: Message) -> bool:
        return True

    def shows(self, record: Record) -> Record:
        return record

    def close(self) -> None:
        """Nothing outlives a call."""


class Reading:
    """Collects records until every topic has as many as were asked for."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.records: dict[str, list[Record]] = {topic: [] for topic in counts}
        self._counts = dict(counts)
        self._missing = sum(counts.values())

    def __repr__(self) -> str:
        found = {topic: len(records) for topic, records in self.records.items()}
        return f"{found} of {self._counts}"

    @property
    def is_complete(self) -> bool:
        return self._missing == 0

    def add(self, topic: str, record: Record) -> None:
        if len(self.records[topic]) == self._counts[topic]:
            return  # it was read ahead
        self.records[topic].append(record)
        self._missing -= 1
