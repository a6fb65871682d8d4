"""Gathers messages into batches, one open batch per partition, within a bound of memory.

It neither sends nor waits for answers: `sender` does. A message costs one dictionary lookup and
one call of the batch builder; everything else happens once per batch. The invariant: a message is
either in a batch or was refused, and a batch that is open, ready or sent has its bytes reserved.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from penstock.client.concurrency.memory import MemoryBound
from penstock.client.producing.lanes import Batch, FinishedRecords, Lane
from penstock.client.producing.partitioner import POSITIVE, partition_of_key
from penstock.model.error_codes import from_code
from penstock.model.errors import BatchTooLarge, ClientClosed, InvalidRequest, PenstockError
from penstock.model.limits import BATCH_BYTES_MAX, KIB
from penstock.records import BatchBuilder, EncodedBatch, murmur2
from penstock.records.header import Buffer

Headers = Sequence[tuple[str, bytes | None]]
Append = Callable[[int, bytes | None, bytes | None, Headers | None], int]

# The most that a batch's header and a record's lengths add to a key and value, and to a header.
_RECORD_OVERHEAD_BYTES: Final = 128
_HEADER_OVERHEAD_BYTES: Final = 16
# What a batch reserves when it is opened: little, so that thousands of partitions can have one
# open. It reserves more as it fills.
_OPENED_BYTES: Final = 16 * KIB


class Outgoing(NamedTuple):
    """A message on its way into a batch, where it does not fit into an open one at once."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    partition: int | None
    timestamp_ms: int

    @property
    def size_bytes(self) -> int:
        """At least what the message takes in a batch of its own."""
        size = _RECORD_OVERHEAD_BYTES + _bytes_of(self.key) + _bytes_of(self.value)
        for name, content in self.headers or ():
            # A character takes at most four bytes of UTF-8.
            size += _HEADER_OVERHEAD_BYTES + 4 * len(name) + _bytes_of(content)
        return size


def _bytes_of(content: Buffer | None) -> int:
    # Not len(): that of an array or a typed view counts elements.
    return 0 if content is None else memoryview(content).nbytes


def _full(
    timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers | None
) -> int:
    """Stands where a partition has no open batch: nothing fits."""
    del timestamp_ms, key, value, headers
    return -1


class _TopicLanes:
    """The lanes of one topic. `appends[n]` appends to the open batch of partition n."""

    __slots__ = ("appends", "lanes", "sticky", "sticky_append")

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self.appends: list[Append] = []
        # The partition that messages without a key go to until its batch is sealed.
        self.sticky = 0
        self.sticky_append: Append = _full

    def set_append(self, partition: int, append: Append) -> None:
        self.appends[partition] = append
        if partition == self.sticky:
            self.sticky_append = append

    def take_next(self) -> None:
        """Move messages without a key on, past partitions that cannot be reached now."""
        count = len(self.lanes)
        following = [(self.sticky + step) % count for step in range(1, count + 1)]
        reachable = (number for number in following if not self.lanes[number].recovering)
        self.sticky = next(reachable, following[0])
        self.sticky_append = self.appends[self.sticky]


class Accumulator:
    """The open batches of a producer, and the memory that all its batches take."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        buffer_bytes: int,
        linger_ms: float,
        delivery_timeout_ms: int,
        codec: int,
        make_lane: Callable[[str, int], Lane],
        on_ready: Callable[[Lane], None],
    ) -> None:
        self._batch_bytes = batch_bytes
        self._linger_s = linger_ms / 1000
        self._delivery_timeout_s = delivery_timeout_ms / 1000
        self._codec = codec
        self._make_lane = make_lane
        self._on_ready = on_ready
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, _TopicLanes] = {}
        # Lanes of partitions that are gone, while they still have batches to settle.
        self._retired: list[Lane] = []
        self._memory = MemoryBound(buffer_bytes)
        # Why no more messages are taken.
        self._closed: PenstockError | None = None
        # Guards what `try_append` reads: held for each change of it, and for each message by a
        # producer that appends from another thread. In the loop's own thread reading needs none.
        self.lock: Final = threading.Lock()

    def try_append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        partition: int | None,
        timestamp_ms: int,
    ) -> bool:
        """Append to an open batch; False if there is none or it is full. The hot path."""
        lanes = self._topics.get(topic)
        if lanes is None:
            return False
        if partition is not None:
            if not 0 <= partition < len(lanes.appends):
                return False
            append = lanes.appends[partition]
        elif key is None:
            append = lanes.sticky_append
        else:
            appends = lanes.appends
            append = appends[(murmur2(key) & POSITIVE) % len(appends)]
        return append(timestamp_ms, key, value, headers) >= 0

    def place(self, message: Outgoing) -> tuple[Batch, int] | None:
        """Append, opening a batch if need be: the batch, and the message's index in it.

        None if the caller has to wait, for the topic's partitions or for room.
        """
        return self._place(message, is_first=False)

    async def place_with_room(self, message: Outgoing) -> tuple[Batch, int]:
        """Like `place`, waiting for room. Cancelled, the message was not taken."""
        async with self._memory.turn:
            while (placed := self._place(message, is_first=True)) is None:
                # Nothing is gained by waiting for company while somebody waits for room.
                self.make_due()
                await self._memory.wait_for_release()
        return placed

    def place_batch(self, topic: str, encoded: EncodedBatch) -> bool:
        """Queue a finished batch behind all messages of its partition. False if the caller has to
        wait, for the topic's partitions or for room."""
        return self._place_batch(topic, encoded, is_first=False)

    async def place_batch_with_room(self, topic: str, encoded: EncodedBatch) -> None:
        """Like `place_batch`, waiting for room. Cancelled, the batch was not taken."""
        async with self._memory.turn:
            while not self._place_batch(topic, encoded, is_first=True):
                self.make_due()
                await self._memory.wait_for_release()

    def know_topic(self, topic: str, partition_count: int) -> None:
        """Take note of a topic's partitions, which may have become more, or fewer."""
        assert partition_count > 0, f"{topic} has {partition_count} partitions"
        lanes = self._topics.setdefault(topic, _TopicLanes())
        gone = lanes.lanes[partition_count:]
        for lane in gone:
            if lane.open is not None:
                self.seal(lane)
        with self.lock:
            for partition in range(len(lanes.lanes), partition_count):
                lanes.lanes.append(self._make_lane(topic, partition))
                lanes.appends.append(_full)
            del lanes.lanes[partition_count:]
            del lanes.appends[partition_count:]
            lanes.sticky %= partition_count
            lanes.sticky_append = lanes.appends[lanes.sticky]
        self._retired += gone
        for lane in gone:
            self._on_ready(lane)

    def knows(self, topic: str) -> bool:
        return topic in self._topics

    def seal(self, lane: Lane) -> None:
        """Close the open batch of a lane and put it behind the ready ones."""
        batch = lane.open
        assert batch is not None, f"{lane} has no open batch"
        lanes = self._topics[lane.topic]
        with self.lock:
            lanes.set_append(lane.partition, _full)
            if lane.partition == lanes.sticky:
                lanes.take_next()
        if batch.timer is not None:
            batch.timer.cancel()
        lane.open = None
        lane.due = False
        lane.ready.append(batch)
        unused_bytes = batch.reserved_bytes - batch.builder.size_bytes
        if unused_bytes > 0:
            batch.reserved_bytes -= unused_bytes
            self._memory.release(unused_bytes)

    def release(self, batch: Batch) -> None:
        """The batch is delivered or failed: others may have its room."""
        self._memory.release(batch.reserved_bytes)

    def make_due(self) -> None:
        """Let every open batch leave without waiting for company."""
        for lane in list(self.lanes()):
            if lane.open is not None and not lane.due:
                lane.due = True
                self._on_ready(lane)

    def lanes(self) -> Iterator[Lane]:
        for lanes in self._topics.values():
            yield from lanes.lanes
        self._retired = [lane for lane in self._retired if any(lane.batches())]
        yield from self._retired

    def close(self, reason: PenstockError | None = None) -> None:
        """Take no more messages. What was taken leaves at once, and stays until it is settled."""
        if self._closed is None:
            self._closed = reason or ClientClosed(
                "The producer was closed: make another one to go on."
            )
        self._retired = list(self.lanes())
        for lane in self._retired:
            if lane.open is not None:
                self.seal(lane)
        with self.lock:
            self._topics.clear()
        for lane in self._retired:
            self._on_ready(lane)

    def _place(self, message: Outgoing, *, is_first: bool) -> tuple[Batch, int] | None:
        self._check_open()
        lanes = self._topics.get(message.topic)
        if lanes is None:
            return None
        lane = self._choose(message, lanes)
        while lane.open is not None:
            with self.lock:
                index = lanes.appends[lane.partition](
                    message.timestamp_ms, message.key, message.value, message.headers
                )
            if index >= 0:
                return lane.open, index
            if self._widen(lane.open, is_first=is_first):
                continue
            self.seal(lane)
            self._on_ready(lane)
            # Sealing moved messages without a key on to the next partition.
            lane = self._choose(message, lanes)
        bytes_needed = self._bytes_needed(message)
        builder = BatchBuilder(min(self._batch_bytes, _OPENED_BYTES), self._codec)
        # Before the reservation: a message of a wrong type must not leave one behind.
        builder.append(message.timestamp_ms, message.key, message.value, message.headers)
        if not self._memory.try_reserve(bytes_needed, is_first=is_first):
            return None
        return self._open(lanes, lane, builder, bytes_needed), 0

    def _place_batch(self, topic: str, encoded: EncodedBatch, *, is_first: bool) -> bool:
        self._check_open()
        lanes = self._topics.get(topic)
        if lanes is None:
            return False
        lane = _lane_of(topic, encoded.partition, lanes)
        size_bytes = len(encoded.data)
        self._check_size(f"A batch for topic {topic!r} has {size_bytes} bytes", size_bytes)
        if not self._memory.try_reserve(size_bytes, is_first=is_first):
            return False
        if lane.open is not None:
            self.seal(lane)
        records = FinishedRecords(encoded.data, encoded.record_count)
        lane.ready.append(Batch(records, size_bytes, self._loop.time() + self._delivery_timeout_s))
        self._on_ready(lane)
        return True

    def _open(
        self, lanes: _TopicLanes, lane: Lane, builder: BatchBuilder, reserved_bytes: int
    ) -> Batch:
        batch = Batch(builder, reserved_bytes, self._loop.time() + self._delivery_timeout_s)
        if self._linger_s > 0:
            batch.timer = self._loop.call_later(self._linger_s, self._linger_over, lane, batch)
        else:
            # Messages of the same turn of the loop still travel together.
            batch.timer = self._loop.call_soon(self._linger_over, lane, batch)
        lane.open = batch
        with self.lock:
            lanes.set_append(lane.partition, builder.append)
        return batch

    def _widen(self, batch: Batch, *, is_first: bool) -> bool:
        """Let an open batch that is full become twice as large, if it may and there is room."""
        more_bytes = min(batch.reserved_bytes, self._batch_bytes - batch.reserved_bytes)
        if more_bytes <= 0 or not self._memory.try_reserve(more_bytes, is_first=is_first):
            return False
        batch.reserved_bytes += more_bytes
        assert isinstance(batch.builder, BatchBuilder), "a finished batch is not open"
        with self.lock:
            batch.builder.widen(batch.reserved_bytes)
        return True

    def _linger_over(self, lane: Lane, batch: Batch) -> None:
        assert lane.open is batch, f"the timer of a sealed batch of {lane} was not cancelled"
        lane.due = True
        self._on_ready(lane)

    def _bytes_needed(self, message: Outgoing) -> int:
        size_bytes = message.size_bytes
        what = f"A message for topic {message.topic!r} has about {size_bytes} bytes"
        self._check_size(what, size_bytes)
        return max(min(self._batch_bytes, _OPENED_BYTES), size_bytes)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise from_code(self._closed.code, self._closed.message)

    def _check_size(self, what: str, size_bytes: int) -> None:
        limit_bytes = min(self._memory.limit_bytes, BATCH_BYTES_MAX)
        if size_bytes > limit_bytes:
            remedy = "send its content in parts"
            if limit_bytes < BATCH_BYTES_MAX:
                remedy += ", or raise buffer_bytes"
            raise BatchTooLarge(f"{what}, and this producer takes {limit_bytes} at most: {remedy}.")

    @staticmethod
    def _choose(message: Outgoing, lanes: _TopicLanes) -> Lane:
        if message.partition is not None:
            return _lane_of(message.topic, message.partition, lanes)
        if message.key is not None:
            return lanes.lanes[partition_of_key(message.key, len(lanes.lanes))]
        return lanes.lanes[lanes.sticky]


def _lane_of(topic: str, partition: int, lanes: _TopicLanes) -> Lane:
    if not 0 <= partition < len(lanes.lanes):
        raise InvalidRequest(
            f"Topic {topic!r} has no partition {partition}: it has {len(lanes.lanes)}, numbered "
            f"from 0."
        )
    return lanes.lanes[partition]
