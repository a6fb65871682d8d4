"""Reading a range: what is there of it, once and in order, or an error that says what is not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from penstock.client.client import Client, connect
from penstock.client.consuming import range_reader
from penstock.client.errors import DamagedBatch
from penstock.model.errors import (
    Busy,
    ClientClosed,
    CorruptBatch,
    CorruptLog,
    InvalidRequest,
    NotLeader,
    OffsetOutOfRange,
    UnknownTopic,
)
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Codec, Columns, build_batch, control_batch
from penstock.records.header import stamp_append_time
from tests.kit.client.fake_broker import BREAK, HOLD, LOSE_ANSWER, FakeBroker, FakePartition
from tests.kit.records.column_rows import rows_of, values_of

FETCH = pb.CALL_FETCH


@pytest.fixture
def orders(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakePartition:
    """A partition of 10 batches of 10 numbers; about two batches fit an answer."""
    broker.create("orders", 1)
    (partition,) = broker.topics["orders"]
    for first in range(0, 100, 10):
        numbers = [(None, b"%d" % number) for number in range(first, first + 10)]
        partition.append(memoryview(build_batch(numbers, timestamp_ms=first)))
    monkeypatch.setattr(range_reader, "RANGE_FETCH_BYTES", 2 * len(partition.batches[5][1]) + 10)
    return partition


async def take(reading: AsyncIterator[Columns], found: list[int]) -> None:
    """Note the offsets that come, until the end or the error."""
    async for columns in reading:
        found += columns.offsets


async def read(mq: Client, start: int, end: int) -> list[int]:
    """The numbers of a range, whose offsets must be the same."""
    found: list[int] = []
    async for columns in mq.read_range("orders", 0, start, end):
        assert columns.record_count > 0
        assert columns.headers is None
        found += columns.offsets
        assert [int(value or b"") for value in values_of(columns.values)] == [*columns.offsets]
    return found


@pytest.mark.parametrize(
    ("start", "end"), [(0, 100), (0, 1), (99, 100), (10, 20), (5, 95), (14, 16), (19, 21), (7, 7)]
)
async def test_exactly_the_range(
    start: int, end: int, orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    assert await read(mq, start, end) == list(range(start, end))


async def test_a_range_of_nothing_asks_nothing(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    assert await read(mq, 1000, 1000) == []
    assert broker.count(FETCH) == 0


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (6, 5), (-5, -3)])
async def test_a_range_that_is_none(
    start: int, end: int, orders: FakePartition, mq: Client
) -> None:
    with pytest.raises(InvalidRequest, match=f"from {start} to {end} is none"):
        mq.read_range("orders", 0, start, end)


async def test_the_next_answer_is_on_its_way_while_the_caller_works(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    """And not the one after it: what is held is bounded."""
    reading = mq.read_range("orders", 0, 0, 100)
    first = await anext(reading)
    assert [*first.offsets] == list(range(20))
    await broker.until(lambda: broker.count(FETCH) == 2)
    for _ in range(20):
        await asyncio.sleep(0)
    assert [request.offset for number, request in broker.calls if number == FETCH] == [0, 20]
    rest = [offset async for columns in reading for offset in columns.offsets]
    assert rest == list(range(20, 100))


async def test_headers_and_times_as_asked_for(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    async with mq.producer() as producer:
        await producer.send("orders", b"v", b"k", headers=[("a", b"b")], timestamp_ms=7)
    (partition,) = broker.topics["orders"]
    header, batch = partition.batches[0]
    stamped = bytearray(batch)
    stamp_append_time(memoryview(stamped), 5000)
    partition.batches[0] = header, bytes(stamped)

    async def row(**options: bool) -> object:
        (columns,) = [one async for one in mq.read_range("orders", 0, 0, 1, **options)]
        return rows_of(columns)[0]

    assert await row() == (0, 5000, b"k", b"v", ())
    assert await row(include_headers=True) == (0, 5000, b"k", b"v", (("a", b"b"),))
    assert await row(producer_times=True) == (0, 7, b"k", b"v", ())


async def test_what_was_compacted_away_is_no_gap(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    """Also at the end of the range, and where nothing of it is left."""
    orders.compacted = True
    del orders.batches[1:4], orders.batches[4:6]  # 10 to 39 and 70 to 89
    expected = [*range(10), *range(40, 70), *range(90, 100)]
    assert await read(mq, 0, 100) == expected
    assert await read(mq, 5, 85) == [offset for offset in expected if 5 <= offset < 85]
    assert await read(mq, 12, 33) == []
    orders.compacted = False
    with pytest.raises(CorruptLog, match="at offset 10 the broker has a batch"):
        await read(mq, 0, 100)


async def test_control_batches_are_passed_over(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    (partition,) = broker.topics["orders"]
    partition.append(memoryview(build_batch([(None, b"0")])))
    for offset in (1, 2):
        batch = control_batch(1, b"commit", timestamp_ms=1, base_offset=offset)
        header = partition.batches[0][0]
        partition.batches.append((header._replace(base_offset=offset), bytes(batch)))
    partition.end = 3
    assert await read(mq, 0, 3) == [0]
    assert await read(mq, 1, 3) == []


async def test_an_end_that_is_not_written_yet(orders: FakePartition, mq: Client) -> None:
    with pytest.raises(OffsetOutOfRange, match=r"orders-0 has no offset 100: .* at 100") as caught:
        await read(mq, 0, 101)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 100)


async def test_a_start_that_is_gone(orders: FakePartition, mq: Client) -> None:
    orders.start = 30
    with pytest.raises(OffsetOutOfRange, match="10 is not within 30 and 100") as caught:
        await read(mq, 10, 60)
    assert (caught.value.log_start_offset, caught.value.log_end_offset) == (30, 100)
    assert await read(mq, 30, 60) == list(range(30, 60))


async def test_what_vanishes_meanwhile(orders: FakePartition, mq: Client) -> None:
    """What came before is handed out, and then the error: never a gap."""
    found: list[int] = []
    reading = mq.read_range("orders", 0, 0, 100)
    found += (await anext(reading)).offsets
    orders.start = 90
    with pytest.raises(OffsetOutOfRange):
        await take(reading, found)
    assert found == list(range(len(found)))
    assert 20 <= len(found) < 90


async def test_the_error_is_told_though_the_broker_says_no_more(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    orders.start = 30
    broker.script[pb.CALL_FIND_OFFSET].append(InvalidRequest("Not now."))
    with pytest.raises(OffsetOutOfRange) as caught:
        await read(mq, 10, 60)
    assert caught.value.log_start_offset is None


@pytest.mark.parametrize("trouble", [BREAK, LOSE_ANSWER, Busy(), NotLeader()])
async def test_trouble_on_the_way_is_lived_through(
    trouble: str | Busy, orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    reading = mq.read_range("orders", 0, 0, 100)
    found = [*(await anext(reading)).offsets]
    broker.script[FETCH].extend([trouble, trouble])
    async for columns in reading:
        found += columns.offsets
    assert found == list(range(100))


async def test_a_topic_that_is_not_there(orders: FakePartition, mq: Client) -> None:
    with pytest.raises(UnknownTopic):
        await anext(mq.read_range("nothing", 0, 0, 10))
    with pytest.raises(UnknownTopic, match="no partition 7"):
        await anext(mq.read_range("orders", 7, 0, 10))


async def test_a_topic_deleted_meanwhile(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    reading = mq.read_range("orders", 0, 0, 100)
    await anext(reading)
    del broker.topics["orders"]
    with pytest.raises(UnknownTopic):
        [columns async for columns in reading]


async def test_nothing_where_something_is_said_to_be(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    broker.holds_polls = False
    orders.batches.clear()
    with pytest.raises(CorruptLog, match=r"nothing at offset 0, though .* goes to 100"):
        await read(mq, 0, 100)


async def test_a_damaged_batch_comes_after_the_sound_ones(
    orders: FakePartition, mq: Client
) -> None:
    header, batch = orders.batches[5]
    orders.batches[5] = header, batch[:-1] + bytes([batch[-1] ^ 1])
    found: list[int] = []
    with pytest.raises(CorruptBatch, match=r"orders-0 .* offsets 50 to 59.* offset 60") as told:
        await take(mq.read_range("orders", 0, 0, 100), found)
    assert found == list(range(50)), "also those that came in the same answer"
    assert isinstance(told.value, DamagedBatch)
    assert (told.value.offset, told.value.next_offset) == (50, 60)
    found.clear()
    await take(mq.read_range("orders", 0, 60, 100), found)
    assert found == list(range(60, 100))


async def test_a_misplaced_batch_comes_after_the_sound_ones(
    orders: FakePartition, mq: Client
) -> None:
    header, batch = orders.batches[5]
    orders.batches[5] = header, batch[:6] + b"\7" + batch[7:]
    found: list[int] = []
    with pytest.raises(CorruptLog, match="at offset 50 the broker has a batch"):
        await take(mq.read_range("orders", 0, 0, 100), found)
    assert found == list(range(50))


async def test_leaving_early_leaves_nothing(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    before = asyncio.all_tasks()
    broker.script[FETCH].extend(["done as usual", HOLD])
    async for _ in mq.read_range("orders", 0, 0, 100):
        break
    gc.collect()
    await broker.until(lambda: asyncio.all_tasks() == before)


async def test_one_who_is_cancelled_may_go_on(
    orders: FakePartition, broker: FakeBroker, mq: Client
) -> None:
    broker.script[FETCH].append(HOLD)
    reader = mq.range_reader("orders", 0, 0, 20, include_headers=False, producer_times=False)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.next_payload(), 0.001)
    await broker.until(lambda: bool(broker.held))
    broker.release()
    payload = await reader.next_payload()
    assert payload is not None
    (columns,) = reader.decode(payload)
    assert [*columns.offsets] == list(range(20))
    assert broker.count(FETCH) == 1
    assert await reader.next_payload() is None


async def test_the_end_of_the_client_ends_reading(
    orders: FakePartition, broker: FakeBroker
) -> None:
    broker.script[FETCH].append(HOLD)
    async with connect(broker.address) as mq:
        reading = asyncio.ensure_future(anext(mq.read_range("orders", 0, 0, 100)))
        await broker.until(lambda: bool(broker.held))
    with pytest.raises(ClientClosed):
        await reading
    with pytest.raises(ClientClosed):
        mq.read_range("orders", 0, 0, 100)


async def test_answers_of_many_rows_come_in_pieces(
    orders: FakePartition, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(range_reader, "RANGE_FETCH_BYTES", 1 << 20)
    monkeypatch.setattr(range_reader, "PIECE_ROWS_MAX", 35)
    pieces: list[Columns] = [columns async for columns in mq.read_range("orders", 0, 5, 100)]
    assert [piece.record_count for piece in pieces] == [25, 30, 30, 10]


async def test_messages_that_shrink_to_little_come_in_pieces(
    broker: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held at once is bounded by what messages are, not by what was sent of them."""
    broker.create("orders", 1)
    (partition,) = broker.topics["orders"]
    for _ in range(40):
        batch = build_batch([(None, bytes(100_000))] * 10, codec=Codec.ZSTD)
        partition.append(memoryview(batch))
    monkeypatch.setattr(range_reader, "PIECE_BYTES_MAX", 3_500_000)
    pieces = [columns async for columns in mq.read_range("orders", 0, 0, 400)]
    assert [piece.record_count for piece in pieces] == [30] * 13 + [10]
    assert broker.count(FETCH) == 1
    assert [offset for piece in pieces for offset in piece.offsets] == list(range(400))
