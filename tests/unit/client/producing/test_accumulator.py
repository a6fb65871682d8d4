"""Batches fill, leave and are bounded, without any network."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable

import pytest

from penstock.client.producing.accumulator import Accumulator, Outgoing
from penstock.client.producing.lanes import Lane
from penstock.client.producing.partitioner import partition_of_key
from penstock.model.errors import BatchTooLarge, ClientClosed, InvalidRequest
from penstock.model.limits import KIB, MIB
from penstock.records import BatchBuilder, EncodedBatch, build_batch

VALUE = b"v" * 100


def message(
    value: bytes | None = VALUE, key: bytes | None = None, partition: int | None = None
) -> Outgoing:
    return Outgoing("orders", key, value, None, partition, 1)


class Bench:
    """An accumulator and the lanes it called ready."""

    def __init__(
        self,
        partitions: int = 1,
        linger_ms: float = 1000,
        batch_bytes: int = 1024,
        buffer_bytes: int = 4096,
    ) -> None:
        self.ready: list[int] = []
        self.accumulator = Accumulator(
            batch_bytes=batch_bytes,
            buffer_bytes=buffer_bytes,
            linger_ms=linger_ms,
            delivery_timeout_ms=1000,
            codec=0,
            make_lane=lambda topic, partition: Lane(topic, partition, b""),
            on_ready=lambda lane: self.ready.append(lane.partition),
        )
        self.accumulator.know_topic("orders", partitions)

    def lane(self, partition: int = 0) -> Lane:
        return list(self.accumulator.lanes())[partition]

    def fill(self, count: int, **fields: object) -> None:
        for _ in range(count):
            assert self.accumulator.place(message(**fields)) is not None  # type: ignore[arg-type]


async def test_messages_gather_in_one_open_batch() -> None:
    bench = Bench()
    assert not bench.accumulator.try_append("orders", None, VALUE, None, None, 1)
    bench.fill(1)
    assert bench.accumulator.try_append("orders", None, VALUE, None, None, 1)
    assert bench.ready == []
    batch = bench.lane().open
    assert batch is not None
    assert batch.builder.record_count == 2


async def test_a_full_batch_is_sealed_and_the_next_opened() -> None:
    bench = Bench()
    bench.fill(10)
    lane = bench.lane()
    assert [batch.builder.record_count for batch in lane.ready] == [8]
    assert lane.open is not None
    assert lane.open.builder.record_count == 2
    assert bench.ready == [0]


async def test_a_thousand_partitions_have_open_batches_at_the_same_time() -> None:
    """Each has little reserved as long as it has little: otherwise every message of a busy producer
    would travel alone."""
    bench = Bench(partitions=1000, batch_bytes=512 * KIB, buffer_bytes=64 * MIB)
    for _ in range(3):
        for partition in range(1000):
            bench.fill(1, partition=partition)
    assert [lane.open and lane.open.builder.record_count for lane in bench.accumulator.lanes()] == [
        3
    ] * 1000
    assert bench.ready == []


async def test_a_batch_becomes_as_large_as_it_may_and_as_there_is_room() -> None:
    bench = Bench(partitions=2, batch_bytes=100 * KIB, buffer_bytes=150 * KIB)
    bench.fill(1000, partition=0)
    first = bench.lane().ready[0]
    assert 100 * KIB - 200 < first.builder.size_bytes <= 100 * KIB
    filled = 0
    while bench.accumulator.place(message(partition=1)) is not None:
        filled += 1
    assert filled > 100, "what is left is used"
    sizes = [batch.reserved_bytes for lane in bench.accumulator.lanes() for batch in lane.batches()]
    assert sum(sizes) <= 150 * KIB


async def test_without_a_key_partitions_take_turns_by_batch() -> None:
    """R-CORE-2: round robin, a batch at a time."""
    bench = Bench(partitions=3)
    bench.fill(30)
    assert [lane.ready[0].builder.record_count for lane in bench.accumulator.lanes()] == [8] * 3
    bench.fill(2)
    assert len(bench.lane(0).ready) == 1


async def test_partitions_that_cannot_be_reached_are_passed_by() -> None:
    bench = Bench(partitions=3)
    bench.lane(1).recovering = True
    bench.fill(9)
    assert bench.lane(1).open is None
    assert bench.lane(2).open is not None


async def test_a_key_decides_the_partition_and_a_number_overrides_it() -> None:
    bench = Bench(partitions=5)
    key = b"alice"
    chosen = partition_of_key(key, 5)
    bench.fill(1, key=key)
    assert bench.accumulator.try_append("orders", key, VALUE, None, None, 1)
    batch = bench.lane(chosen).open
    assert batch is not None
    assert batch.builder.record_count == 2
    other = (chosen + 1) % 5
    bench.fill(1, key=key, partition=other)
    assert bench.accumulator.try_append("orders", key, VALUE, None, other, 1)
    assert bench.lane(other).open is not None


async def test_a_partition_that_is_not_there_is_refused() -> None:
    bench = Bench(partitions=2)
    assert not bench.accumulator.try_append("orders", None, VALUE, None, 2, 1)
    with pytest.raises(InvalidRequest, match="it has 2"):
        bench.accumulator.place(message(partition=2))
    with pytest.raises(InvalidRequest, match="it has 2"):
        bench.accumulator.place(message(partition=-1))


async def test_the_bound_holds_and_waiting_ends_with_room() -> None:
    bench = Bench()
    bench.fill(32)  # three sealed batches and a full open one: 4 KiB
    assert bench.accumulator.place(message()) is None
    waiting = asyncio.ensure_future(bench.accumulator.place_with_room(message()))
    await asyncio.sleep(0)
    assert not waiting.done()
    for batch in list(bench.lane().ready):
        bench.accumulator.release(batch)
    placed = await waiting
    assert placed is not None
    assert placed[1] == 0


async def test_one_who_gives_up_waiting_leaves_nothing() -> None:
    bench = Bench()
    bench.fill(33 - 1)
    assert bench.accumulator.place(message()) is None
    waiting = asyncio.ensure_future(bench.accumulator.place_with_room(message()))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    records = sum(batch.builder.record_count for batch in bench.lane().batches())
    assert records == 32
    for batch in list(bench.lane().ready):
        bench.accumulator.release(batch)
    assert bench.accumulator.place(message()) is not None


async def test_a_wrong_type_leaves_no_trace() -> None:
    bench = Bench()
    for _ in range(10):  # ten reservations of 1 KiB would not fit
        with pytest.raises(TypeError):
            bench.accumulator.place(message(value="text"))  # type: ignore[arg-type]
    bench.fill(2)


async def test_a_message_beyond_the_buffer_is_refused() -> None:
    bench = Bench()
    with pytest.raises(BatchTooLarge, match="in parts"):
        bench.accumulator.place(message(value=b"v" * 5000))
    bench.fill(1, value=b"v" * 2000)  # larger than a batch, but it fits: it travels alone
    bench.fill(1)
    assert len(bench.lane().ready) == 1


async def test_lingering_ends_by_the_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Callable[..., None], tuple[object, ...]]] = []
    loop = asyncio.get_running_loop()
    bench = Bench(linger_ms=25)

    def call_later(delay: float, callback: Callable[..., None], *args: object) -> asyncio.Handle:
        timers.append((delay, callback, args))
        return loop.call_soon(lambda: None)

    monkeypatch.setattr(loop, "call_later", call_later)
    bench.fill(1)
    ((delay, callback, args),) = timers
    assert delay == 0.025
    assert not bench.lane().due
    callback(*args)
    assert bench.lane().due
    assert bench.ready == [0]


async def test_without_linger_one_turn_of_the_loop_travels_together() -> None:
    bench = Bench(linger_ms=0)
    bench.fill(3)
    assert bench.ready == []
    await asyncio.sleep(0)
    assert bench.ready == [0]
    batch = bench.lane().open
    assert batch is not None
    assert batch.builder.record_count == 3


async def test_partitions_come_and_go() -> None:
    bench = Bench(partitions=1)
    bench.accumulator.know_topic("orders", 3)
    bench.fill(1, partition=2)
    bench.accumulator.know_topic("orders", 1)
    assert bench.ready == [1, 2], "what they hold is still settled"
    with pytest.raises(InvalidRequest):
        bench.fill(1, partition=2)
    bench.fill(1)


async def test_after_close_nothing_is_taken() -> None:
    bench = Bench()
    bench.fill(1)
    bench.accumulator.close()
    assert bench.ready == [0]
    assert len(bench.lane().ready) == 1
    assert not bench.accumulator.try_append("orders", None, VALUE, None, None, 1)
    with pytest.raises(ClientClosed):
        bench.accumulator.place(message())


def test_the_size_is_never_underestimated() -> None:
    headers = [("ä" * 50, b"x" * 20), ("none", None)] * 10
    outgoing = Outgoing("orders", b"k" * 300, b"v" * 70_000, headers, None, 1)
    builder = BatchBuilder(1024, 0)
    builder.append(1, outgoing.key, outgoing.value, headers)
    assert builder.size_bytes <= outgoing.size_bytes


async def test_who_waits_for_room_waits_for_nobody_s_linger() -> None:
    """A batch opened by one who waited before does not keep the next one out for its linger."""
    bench = Bench(partitions=4, linger_ms=60_000)
    for partition in range(4):  # 4 KiB in all: the whole buffer is reserved by open batches
        bench.fill(1, partition=partition)
    waiting = [
        asyncio.ensure_future(bench.accumulator.place_with_room(message(value=b"v" * 1000)))
        for _ in range(6)
    ]
    async with asyncio.timeout(5):
        while not all(task.done() for task in waiting):
            await asyncio.sleep(0)
            for lane in list(bench.accumulator.lanes()):
                if lane.open is not None and lane.due:
                    bench.accumulator.seal(lane)
                while lane.ready:
                    bench.accumulator.release(lane.ready.popleft())


async def test_the_message_of_one_who_waits_goes_into_an_open_batch() -> None:
    """Room in a batch is room, whoever opened it."""
    bench = Bench()
    bench.fill(32)
    waiting = [
        asyncio.ensure_future(bench.accumulator.place_with_room(message())) for _ in range(3)
    ]
    await asyncio.sleep(0)
    bench.accumulator.release(bench.lane().ready.popleft())
    places = [await task for task in waiting]
    assert [index for _, index in places] == [0, 1, 2]
    assert len({batch for batch, _ in places}) == 1


def test_the_size_counts_bytes_and_not_elements() -> None:
    """Of arrays and typed views, whose length is another thing."""
    numbers = array("q", range(1000))
    view = memoryview(numbers)
    outgoing = Outgoing("orders", view, numbers, [("h", view)], None, 1)  # type: ignore[arg-type,list-item]
    assert outgoing.size_bytes > 3 * 8000


def finished(count: int, partition: int = 0, value: bytes = VALUE) -> EncodedBatch:
    return EncodedBatch(partition, count, build_batch([(None, value)] * count))


async def test_a_finished_batch_goes_behind_what_was_sent_before() -> None:
    bench = Bench(partitions=2)
    bench.fill(2, partition=1)
    assert bench.accumulator.place_batch("orders", finished(3, partition=1))
    bench.fill(1, partition=1)
    lane = bench.lane(1)
    assert [batch.builder.record_count for batch in lane.batches()] == [2, 3, 1]
    assert [batch.builder.record_count for batch in lane.ready] == [2, 3]
    assert bench.ready == [1]


async def test_finished_batches_are_bounded_too() -> None:
    """Each takes its own size: 8 messages of 100 bytes are 921 bytes."""
    bench = Bench()
    for _ in range(4):
        assert bench.accumulator.place_batch("orders", finished(8))
    assert not bench.accumulator.place_batch("orders", finished(8))
    waiting = asyncio.ensure_future(bench.accumulator.place_batch_with_room("orders", finished(8)))
    await asyncio.sleep(0)
    assert not waiting.done()
    bench.accumulator.release(bench.lane().ready.popleft())
    await waiting
    assert len(bench.lane().ready) == 4


async def test_finished_batches_that_cannot_be_taken() -> None:
    bench = Bench()
    with pytest.raises(InvalidRequest, match="no partition 1: it has 1"):
        bench.accumulator.place_batch("orders", finished(1, partition=1))
    with pytest.raises(BatchTooLarge, match="A batch for topic 'orders' has 5"):
        bench.accumulator.place_batch("orders", finished(1, value=bytes(5000)))
    assert not bench.accumulator.place_batch("unknown", finished(1))
    bench.accumulator.close()
    with pytest.raises(ClientClosed):
        bench.accumulator.place_batch("orders", finished(1))
