"""What producers sent and readers read while things went wrong, and what must hold of it.

Every send is recorded when it begins, and again when its fate is known; every message that is read,
with the offset where it was read. The checkers are named after what they show, and a failed one
names the messages. Not who sends and who reads. The invariant: a message is told apart from all
others by its producer, its partition and its number there, which are in its bytes.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import NamedTuple, Self

MESSAGE_BYTES = 100
# What a failed check shows.
_SHOWN_MAX = 5


class Sent(NamedTuple):
    """One message, as its producer means it."""

    producer: str
    partition: int
    sequence: int

    @property
    def value(self) -> bytes:
        return f"{self.producer}/{self.partition}/{self.sequence}/".encode().ljust(
            MESSAGE_BYTES, b"."
        )

    @classmethod
    def of(cls, value: bytes) -> Self:
        producer, partition, sequence, _ = value.decode().split("/")
        return cls(producer, int(partition), int(sequence))


class Outcome(Enum):
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"
    """The client says that it was not written."""
    UNKNOWN = "unknown"
    """Nobody was told, or the client does not know."""


@dataclass(slots=True)
class Send:
    """What is known of a message's fate."""

    began_s: float
    ended_s: float | None = None
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    """Where it was acknowledged to be; -1 if that was not said."""
    reason: str = ""


class Read(NamedTuple):
    partition: int
    offset: int
    value: bytes


class History:
    """Of one topic. Threads may record while others look: what is looked at is a copy."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.sends: dict[Sent, Send] = {}
        # By the reader's name, in the order in which it read.
        self.reads: dict[str, list[Read]] = defaultdict(list)
        # What readers and producers complained of, which no user should see.
        self.complaints: list[str] = []
        self._acknowledged_s: dict[int, list[float]] = defaultdict(list)
        self._next: dict[tuple[str, int], int] = defaultdict(int)
        self._lock = threading.Lock()

    # --- recording -------------------------------------------------------------------------------

    def send(self, producer: str, partition: int) -> Sent:
        """A message is about to be sent: the producer's next to the partition."""
        with self._lock:
            sent = Sent(producer, partition, self._next[producer, partition])
            self._next[producer, partition] += 1
            self.sends[sent] = Send(began_s=time.monotonic())
        return sent

    def acknowledge(self, sent: Sent, offset: int | None) -> None:
        """offset: None if the client cannot tell. Where a former leader turned batches away that
        the next one has, librdkafka sends it what comes behind them, and takes them for written
        when that is."""
        with self._lock:
            send = self._end(sent, Outcome.ACKNOWLEDGED)
            send.offset = -1 if offset is None else offset
            assert send.ended_s is not None
            self._acknowledged_s[sent.partition].append(send.ended_s)

    def fail(self, sent: Sent, reason: str, *, is_written: bool | None = None) -> None:
        """is_written: False if the client says that it was not; None if nobody knows."""
        outcome = Outcome.UNKNOWN if is_written is None else Outcome.FAILED
        with self._lock:
            self._end(sent, outcome).reason = reason

    def read(self, reader: str, partition: int, offset: int, value: bytes | None) -> None:
        with self._lock:
            self.reads[reader].append(Read(partition, offset, value or b""))

    def complain(self, who: str, what: object) -> None:
        with self._lock:
            self.complaints.append(f"{who}: {what}")

    def _end(self, sent: Sent, outcome: Outcome) -> Send:
        send = self.sends[sent]
        assert send.ended_s is None, f"{sent} ended twice: {send}, now {outcome}"
        send.ended_s, send.outcome = time.monotonic(), outcome
        return send

    # --- looking ---------------------------------------------------------------------------------

    def sent(self) -> list[tuple[Sent, Send]]:
        """All that was sent so far, in the order of sending."""
        with self._lock:
            return list(self.sends.items())

    def readers(self) -> list[str]:
        """Who has read anything so far."""
        with self._lock:
            return [name for name, reads in self.reads.items() if reads]

    def read_of(self, reader: str) -> list[Read]:
        """What the reader has read so far, in the order of reading."""
        with self._lock:
            return list(self.reads.get(reader, ()))

    def acknowledged(self, partition: int) -> int:
        """How many messages of the partition were acknowledged so far."""
        return len(self._acknowledged_at_s(partition))

    def count(self, outcome: Outcome) -> int:
        return sum(send.outcome is outcome for _, send in self.sent())

    def acknowledged_between(self, begin_s: float, end_s: float, partition: int) -> int:
        return sum(begin_s <= at_s <= end_s for at_s in self._acknowledged_at_s(partition))

    def longest_gap_s(
        self, partition: int, since_s: float = 0.0, until_s: float | None = None
    ) -> float:
        """The longest time in which nothing of the partition was acknowledged, though something
        was being sent: from `since_s` on, or the first send."""
        began = [send.began_s for sent, send in self.sent() if sent.partition == partition]
        first_s, last_s = max(min(began), since_s), max(began) if until_s is None else until_s
        ended = self._acknowledged_at_s(partition)
        inside = [at_s for at_s in ended if first_s <= at_s <= last_s]
        places = [first_s, *sorted(inside), last_s]
        return max(later - earlier for earlier, later in pairwise(places))

    def read_by(self, reader: str, partition: int) -> dict[int, bytes]:
        """What the reader read, by offset."""
        return {
            read.offset: read.value for read in self.read_of(reader) if read.partition == partition
        }

    def report(self) -> str:
        """What happened, for people."""
        counts = ", ".join(f"{self.count(outcome)} {outcome.value}" for outcome in Outcome)
        gaps = ", ".join(f"{self.longest_gap_s(each):.2f} s" for each in range(self.partitions))
        reasons = sorted({send.reason for _, send in self.sent() if send.reason})
        return f"{counts}; longest without an acknowledgement: {gaps}; {reasons[:5] or 'no errors'}"

    def _acknowledged_at_s(self, partition: int) -> list[float]:
        with self._lock:
            return list(self._acknowledged_s[partition])

    # --- what must hold --------------------------------------------------------------------------

    def check(self, whole: Sequence[str]) -> None:
        """All that must hold. whole: the readers that read everything, at the end."""
        assert self.count(Outcome.ACKNOWLEDGED), "nothing was acknowledged: nothing was tested"
        check_no_complaints(self)
        for reader in self.readers():
            check_no_phantoms(self, reader)
            check_reading_order(self, reader)
            check_no_duplicates(self, reader)
            check_order_kept(self, reader)
        check_offsets_functional(self)
        for reader in whole:
            check_nothing_lost(self, reader)
            check_offsets_true(self, reader)
            for other in self.readers():
                check_nothing_skipped(self, other, reader)


def check_no_complaints(history: History) -> None:
    """No client told its user of anything: what went wrong was the clients' to get over."""
    _expect_none("complaints", history.complaints)


def check_nothing_lost(history: History, reader: str) -> None:
    """Every acknowledged message is read (R-REP-2)."""
    found = {Sent.of(read.value) for read in history.read_of(reader)}
    lost = [
        (sent, send)
        for sent, send in history.sent()
        if send.outcome is Outcome.ACKNOWLEDGED and sent not in found
    ]
    _expect_none(f"acknowledged messages that {reader} does not find", lost)


def check_no_phantoms(history: History, reader: str) -> None:
    """Nothing is read that was never sent, or that its producer was told is not written, or in
    another partition than it was sent to."""
    wrong = []
    for read in history.read_of(reader):
        sent = Sent.of(read.value)
        send = history.sends.get(sent)
        is_told_failed = send is not None and send.outcome is Outcome.FAILED
        if send is None or is_told_failed or read.partition != sent.partition:
            wrong.append((read, send))
    _expect_none(f"messages that {reader} should not have read", wrong)


def check_no_duplicates(history: History, reader: str) -> None:
    """No message is at two offsets: all producers here are idempotent (R-PRO-2)."""
    places: dict[Sent, set[int]] = defaultdict(set)
    for read in history.read_of(reader):
        places[Sent.of(read.value)].add(read.offset)
    _expect_none(
        f"messages that {reader} read at more than one offset",
        [(sent, sorted(offsets)) for sent, offsets in places.items() if len(offsets) > 1],
    )


def check_order_kept(history: History, reader: str) -> None:
    """By offset, the messages of one producer in one partition are in the order of sending."""
    latest: dict[tuple[str, int], Sent] = {}
    wrong = []
    for read in sorted(history.read_of(reader), key=lambda read: (read.partition, read.offset)):
        sent = Sent.of(read.value)
        before = latest.get(sent[:2])
        if before is not None and before.sequence > sent.sequence:
            wrong.append((before, "before", sent, "at", read.offset))
        latest[sent[:2]] = sent
    _expect_none(f"messages out of order for {reader}", wrong)


def check_reading_order(history: History, reader: str) -> None:
    """A reader is given each offset once, and they rise."""
    latest: dict[int, int] = defaultdict(lambda: -1)
    wrong = []
    for read in history.read_of(reader):
        if read.offset <= latest[read.partition]:
            wrong.append((read, "after offset", latest[read.partition]))
        latest[read.partition] = read.offset
    _expect_none(f"offsets that {reader} was given again, or late", wrong)


def check_offsets_functional(history: History) -> None:
    """Whoever reads an offset, whenever, reads the same there: nothing is read that is not
    committed, and what is committed stays."""
    values: dict[tuple[int, int], tuple[str, bytes]] = {}
    wrong = []
    for reader in history.readers():
        for read in history.read_of(reader):
            first = values.setdefault((read.partition, read.offset), (reader, read.value))
            if first[1] != read.value:
                wrong.append((first, "but", reader, read))
    _expect_none("offsets with two values", wrong)


def check_offsets_true(history: History, reader: str) -> None:
    """A message is where its acknowledgement said."""
    places = {Sent.of(read.value): read.offset for read in history.read_of(reader)}
    _expect_none(
        f"messages that {reader} found elsewhere than acknowledged",
        [
            (sent, send.offset, places[sent])
            for sent, send in history.sent()
            if send.offset >= 0 and sent in places and places[sent] != send.offset
        ],
    )


def check_nothing_skipped(history: History, reader: str, whole: str) -> None:
    """Up to where it came, a reader from the beginning on was given everything there is."""
    skipped = []
    for partition in range(history.partitions):
        seen = history.read_by(reader, partition)
        last = max(seen, default=-1)
        everything = history.read_by(whole, partition)
        skipped += [
            (partition, offset) for offset in everything if offset <= last and offset not in seen
        ]
    _expect_none(f"messages that {reader} was not given", skipped)


def _expect_none(what: str, found: Iterable[object]) -> None:
    found = list(found)
    shown = "; ".join(map(str, found[:_SHOWN_MAX]))
    assert not found, f"{len(found)} {what}: {shown}"
