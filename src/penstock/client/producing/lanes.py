"""One partition's way from a producer to its broker: batches open, ready, and sent.

A lane holds state; `accumulator` fills it and `sender` empties it. The invariant: open, ready and
sent batches are in the order in which their messages were given, and a batch gets its sequence
numbers when it is first sent, so that no number is ever left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock.client.concurrency.hindrance import Hindrance
from penstock.client.producing.identity import ProducerIdentity
from penstock.client.producing.receipts import Receipt
from penstock.model.errors import PenstockError
from penstock.net.channel import Channel
from penstock.records import BatchBuilder
from penstock.records.header import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    read_header,
    write_header,
)

# Kafka's rule: 0 comes after 2147483647.
SEQUENCE_MASK: Final = 2**31 - 1


class FinishedRecords:
    """A batch that somebody else built, with the face of a builder: only its producer is open."""

    __slots__ = ("_data", "record_count", "size_bytes")

    def __init__(self, data: bytearray, record_count: int) -> None:
        self._data = data
        self.record_count = record_count
        self.size_bytes = len(data)

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
    ) -> bytearray:
        return _renumbered(self._data, producer_id, producer_epoch, base_sequence)


class Batch:
    """Messages of one partition that travel together. One object per batch, none per message."""

    __slots__ = (
        "_finished",
        "_receipts",
        "builder",
        "deadline_s",
        "payload",
        "reserved_bytes",
        "sequence",
        "timer",
        "uncertain",
    )

    def __init__(
        self, builder: BatchBuilder | FinishedRecords, reserved_bytes: int, deadline_s: float
    ) -> None:
        self.builder = builder
        self.reserved_bytes = reserved_bytes
        self.deadline_s = deadline_s
        self.timer: asyncio.Handle | None = None
        self.payload: bytearray | None = None
        self.sequence = NO_SEQUENCE
        # It was sent and no answer says what became of it: it may be in the log.
        self.uncertain = False
        self._finished: asyncio.Future[None] | None = None
        self._receipts: list[tuple[int, int, asyncio.Future[Receipt]]] | None = None

    def receipt(self, index: int, timestamp_ms: int) -> asyncio.Future[Receipt]:
        """A future for the receipt of one message: made only where it was asked for."""
        future: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        if self._receipts is None:
            self._receipts = []
        self._receipts.append((index, timestamp_ms, future))
        return future

    @property
    def silent_count(self) -> int:
        """The messages that nobody asked a receipt for: only a flush tells of their failure."""
        return self.builder.record_count - len(self._receipts or ())

    def finished(self) -> asyncio.Future[None]:
        """A future that ends with the batch, delivered or not."""
        if self._finished is None:
            self._finished = asyncio.get_running_loop().create_future()
        return self._finished

    def deliver(self, lane: Lane, base_offset: int, append_time_ms: int, duplicate: bool) -> None:
        for index, timestamp_ms, future in self._receipts or ():
            if not future.done():
                receipt = Receipt(
                    topic=lane.topic,
                    partition=lane.partition,
                    offset=base_offset + index if base_offset >= 0 else -1,
                    timestamp_ms=append_time_ms if append_time_ms >= 0 else timestamp_ms,
                    duplicate=duplicate,
                )
                future.set_result(receipt)
        self._finish()

    def fail(self, error: PenstockError) -> None:
        for _, _, future in self._receipts or ():
            if not future.done():
                future.set_exception(error)
        self._finish()

    def _finish(self) -> None:
        # The callback of a future keeps the batch for a while: its bytes need not stay as long.
        self.payload = None
        self._receipts = None
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)


class Lane:
    """The batches of one partition, and what the sender knows about it."""

    __slots__ = (
        "channel",
        "due",
        "envelope",
        "failures",
        "flying",
        "hindrance",
        "identity",
        "identity_lost",
        "last_error",
        "next_sequence",
        "open",
        "partition",
        "ready",
        "recovering",
        "sent",
        "stalled",
        "topic",
    )

    def __init__(self, topic: str, partition: int, envelope: bytes) -> None:
        self.topic = topic
        self.partition = partition
        # The same for every batch of the lane, so it is encoded once.
        self.envelope = envelope
        self.open: Batch | None = None
        # The open batch has waited its time: it leaves with the next free place in the window.
        self.due = False
        self.ready: deque[Batch] = deque()
        # Sent and neither delivered nor failed; `flying` of them have no answer yet.
        self.sent: deque[Batch] = deque()
        self.flying = 0
        # A sent batch has to be sent again: nothing new leaves before that.
        self.stalled = False
        self.recovering = False
        self.channel: Channel | None = None
        self.identity: ProducerIdentity | None = None
        self.identity_lost = False
        self.next_sequence = 0
        self.failures = 0
        self.last_error: PenstockError | None = None
        # While nothing is taken, though it is tried.
        self.hindrance: Hindrance | None = None

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def batches(self) -> Iterator[Batch]:
        yield from self.sent
        yield from self.ready
        if self.open is not None:
            yield self.open

    def stamp(self, batch: Batch, idempotent: bool) -> bytearray:
        """The batch as it goes on the wire, with its sequence numbers if it has none yet."""
        if not idempotent:
            if batch.payload is None:
                batch.payload = batch.builder.build()
        elif batch.sequence == NO_SEQUENCE:
            assert self.identity is not None, f"{self} sends without an identity"
            batch.sequence = self.next_sequence
            if batch.payload is None:
                batch.payload = batch.builder.build(
                    producer_id=self.identity.producer_id,
                    producer_epoch=self.identity.producer_epoch,
                    base_sequence=batch.sequence,
                )
            else:
                _renumbered(batch.payload, *self.identity, batch.sequence)
            self.next_sequence = (self.next_sequence + batch.builder.record_count) & SEQUENCE_MASK
        assert batch.payload is not None, f"a batch of {self} has numbers but no bytes"
        return batch.payload


def _renumbered(
    batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int
) -> bytearray:
    """The batch as another producer's, in place."""
    header = read_header(batch)._replace(
        producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
    )
    write_header(batch, header)
    return batch
