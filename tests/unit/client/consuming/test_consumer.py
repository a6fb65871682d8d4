"""The consumer as its users see it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from penstock.client.client import Client
from penstock.client.consuming.consumer import Consumer
from penstock.client.consuming.starts import Start
from penstock.client.errors import DamagedBatch
from penstock.model.errors import (
    ClientClosed,
    CorruptBatch,
    CorruptLog,
    InvalidConfig,
    InvalidRequest,
    StorageFailed,
    UnknownTopic,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Codec, Message, build_batch, control_batch
from penstock.records.header import read_header
from tests.kit.client.fake_broker import HOLD, FakeBroker, FakePartition

ORDERS = TopicPartition("orders", 0)


def fill(
    broker: FakeBroker, count: int, *, partition: int = 0, batch: int = 5, timestamp_ms: int = 0
) -> None:
    """Messages "0", "1", … in batches, one second apart."""
    log = broker.topics["orders"][partition]
    for base in range(log.end, log.end + count, batch):
        records = [(None, b"%d" % number) for number in range(base, base + batch)]
        log.append(memoryview(build_batch(records, timestamp_ms=timestamp_ms + base * 1000)))
    broker.notify()


async def read(consumer: Consumer, count: int) -> list[int]:
    """The values of the next messages, one by one."""
    values: list[int] = []
    async with asyncio.timeout(5):
        async for message in consumer:
            values.append(int(message.value or b""))
            if len(values) == count:
                break
    return values


@pytest.fixture
def orders(broker: FakeBroker) -> FakeBroker:
    broker.create("orders", 1)
    fill(broker, 20)
    return broker


async def test_one_by_one_from_the_first(orders: FakeBroker, mq: Client) -> None:
    consumer = mq.subscribe("orders")
    assert await read(consumer, 20) == list(range(20))
    assert consumer.position(ORDERS) == 20


async def test_a_loop_that_is_left_goes_on_where_it_was(orders: FakeBroker, mq: Client) -> None:
    """R-STO-2: in the middle of a batch, and in another way of reading."""
    async with mq.subscribe("orders") as consumer:
        assert await read(consumer, 3) == [0, 1, 2]
        assert consumer.position(ORDERS) == 3
        assert await read(consumer, 4) == [3, 4, 5, 6]
        (message,) = await consumer.fetch(max_messages=1)
        assert message.offset == 7
        assert consumer.position(ORDERS) == 8
        columns = await consumer.fetch_columns()
        assert columns[0].columns.offsets[0] == 8
        assert sum(entry.columns.record_count for entry in columns) == 12


async def test_in_lists(orders: FakeBroker, mq: Client) -> None:
    consumer = mq.subscribe("orders")
    messages: list[Message] = []
    async for batch in consumer.batches():
        messages += batch
        if len(messages) == 20:
            break
    assert [message.offset for message in messages] == list(range(20))
    assert consumer.position(ORDERS) == 20


async def test_fetch_returns_in_time(orders: FakeBroker, mq: Client) -> None:
    consumer = mq.subscribe("orders")
    assert len(await consumer.fetch(timeout_s=5)) == 20
    assert await consumer.fetch(timeout_s=0.001) == []
    assert await consumer.fetch_columns(timeout_s=0.001) == []
    fill(orders, 5)
    assert [message.offset for message in await consumer.fetch()] == [20, 21, 22, 23, 24]
    with pytest.raises(InvalidRequest, match="at least 1"):
        await consumer.fetch(max_messages=0)


async def test_columns(orders: FakeBroker, mq: Client) -> None:
    """Messages as columns, without an object for any of them."""
    consumer = mq.subscribe("orders", start=7)
    (entry,) = await consumer.fetch_columns()
    assert (entry.topic, entry.partition, entry.columns.record_count) == ("orders", 0, 13)
    assert list(entry.columns.offsets) == list(range(7, 20))
    values = entry.columns.values
    assert bytes(values.data) == b"7891011121314151617181920"[: len(values.data)]
    assert entry.columns.headers is None
    assert consumer.position(ORDERS) == 20


@pytest.mark.parametrize("codec", list(Codec))
async def test_every_compression_is_read(broker: FakeBroker, mq: Client, codec: Codec) -> None:
    broker.create("orders", 1)
    records = [(b"%d" % number, b"%d" % number) for number in range(200)]
    broker.topics["orders"][0].append(memoryview(build_batch(records, codec=codec)))
    assert await read(mq.subscribe("orders"), 200) == list(range(200))


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        (13, 13),
        (datetime.fromtimestamp(10, UTC), 10),
        (datetime.fromtimestamp(10**6, UTC), 20),
        ("latest", 20),
    ],
)
async def test_starts(orders: FakeBroker, mq: Client, start: Start, first: int) -> None:
    """R-DEL-10: from the first or the next message, an offset inside a batch, a moment."""
    async with mq.subscribe("orders", start=start) as consumer:
        assert consumer.position(ORDERS) == first
        fill(orders, 5)
        assert await read(consumer, 25 - first) == list(range(first, 25))


async def test_seeking(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-10: to an offset, to an end, by time; what was fetched ahead is dropped."""
    async with mq.subscribe("orders") as consumer:
        assert await read(consumer, 2) == [0, 1]
        await consumer.seek(ORDERS, 12)
        assert await read(consumer, 2) == [12, 13]
        await consumer.seek(("orders", 0), "earliest")
        assert await read(consumer, 1) == [0]
        await consumer.seek_to_time(datetime.fromtimestamp(15, UTC))
        assert await read(consumer, 5) == [15, 16, 17, 18, 19]
        await consumer.seek(ORDERS, "latest")
        assert consumer.position(ORDERS) == 20
        with pytest.raises(InvalidRequest, match="orders-9"):
            await consumer.seek(("orders", 9), 0)


async def test_seeking_within_a_loop(orders: FakeBroker, mq: Client) -> None:
    values: list[int] = []
    consumer = mq.subscribe("orders")
    async for message in consumer:
        values.append(int(message.value or b""))
        if len(values) == 3:
            await consumer.seek(ORDERS, 10)
        if len(values) == 5:
            break
    assert values == [0, 1, 2, 10, 11]


async def test_pause_and_resume(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 2)
    fill(broker, 10, partition=0)
    fill(broker, 10, partition=1)
    async with mq.subscribe("orders") as consumer:
        first = await consumer.fetch(max_messages=3)
        paused = (first[0].topic, first[0].partition)
        consumer.pause(paused)
        rest = [message for _ in range(1) for message in await consumer.fetch()]
        assert {message.partition for message in rest} == {1 - paused[1]}
        assert await consumer.fetch(timeout_s=0.001) == []
        consumer.resume()
        again = await consumer.fetch()
        assert [message.offset for message in again] == list(range(3, 10))
        consumer.pause()
        fill(broker, 5)
        assert await consumer.fetch(timeout_s=0.001) == []


async def test_assigned_partitions(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 3)
    for partition in range(3):
        fill(broker, 5, partition=partition)
    async with mq.consumer() as consumer:
        await consumer.assign([("orders", 2)])
        assert consumer.partitions == [("orders", 2)]
        assert {message.partition for message in await consumer.fetch()} == {2}
        await consumer.assign([("orders", 1), ("orders", 2)])
        assert {message.partition for message in await consumer.fetch()} == {1}
        assert consumer.position(("orders", 2)) == 5
        with pytest.raises(UnknownTopic):
            await consumer.assign([("nothing", 0)])


async def test_new_partitions_are_found(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-5: by the refresh of routes, and read from their first message."""
    broker.create("orders", 1)
    async with mq.subscribe("orders", start="latest", group="billing") as consumer:
        broker.topics["orders"].append(type(broker.topics["orders"][0])())
        fill(broker, 5, partition=1)
        await mq.admin.list_topics()
        assert len(consumer.partitions) == 1
        await mq.admin.add_partitions("orders", 3)  # refreshes the route of the topic
        assert {message.partition for message in await consumer.fetch()} == {1}
        assert len(consumer.partitions) == 3


async def test_control_batches_are_passed_over(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    log = broker.topics["orders"][0]
    control = control_batch(0, b"", timestamp_ms=0)
    log.batches.append((read_header(control), bytes(control)))
    log.end = 1
    async with mq.subscribe("orders", group="billing") as consumer:
        await broker.until(lambda: broker.count(pb.CALL_FETCH) == 2)
        records = build_batch([(None, b"1")])
        log.append(memoryview(records))
        broker.notify()
        (message,) = await consumer.fetch()
        assert message.offset == 1
        await message.ack()
        await consumer.close()
    assert broker.offsets["billing"] == {("orders", 0): 2}


async def test_a_damaged_batch_is_told_and_can_be_passed(orders: FakeBroker, mq: Client) -> None:
    """R-STO-6: damage is an error with its place, never data, and what is in front of it comes
    first though it was in the same answer."""
    log = orders.topics["orders"][0]
    header, batch = log.batches[1]
    log.batches[1] = (header, batch[:-1] + bytes([batch[-1] ^ 1]))
    last = log.batches[1][0].next_offset
    async with mq.subscribe("orders") as consumer:
        assert await read(consumer, header.base_offset) == list(range(header.base_offset))
        for _ in range(2):
            with pytest.raises(DamagedBatch, match="orders-0 cannot be read at offsets") as told:
                await consumer.fetch()
            assert isinstance(told.value, CorruptBatch)
            assert told.value.partition == ORDERS
            assert (told.value.offset, told.value.next_offset) == (header.base_offset, last)
            assert consumer.position(ORDERS) == header.base_offset
        await consumer.seek(ORDERS, told.value.next_offset)
        assert await read(consumer, 20 - last) == list(range(last, 20))


async def test_a_damaged_batch_comes_after_the_columns_before_it(
    orders: FakeBroker, mq: Client
) -> None:
    log = orders.topics["orders"][0]
    header, batch = log.batches[1]
    log.batches[1] = (header, batch[:-1] + bytes([batch[-1] ^ 1]))
    async with mq.subscribe("orders") as consumer:
        (before,) = await consumer.fetch_columns()
        assert [*before.columns.offsets] == list(range(header.base_offset))
        with pytest.raises(DamagedBatch):
            await consumer.fetch_columns()
        assert consumer.position(ORDERS) == header.base_offset


async def test_who_stops_before_a_damaged_batch_misses_nothing(
    orders: FakeBroker, mq: Client
) -> None:
    """What was parted and not taken is where it was: other ways to read, and seeking back."""
    log = orders.topics["orders"][0]
    log.batches[-1] = (log.batches[-1][0], log.batches[-1][1][:-1] + b"?")
    good = log.batches[-1][0].base_offset
    async with mq.subscribe("orders") as consumer:
        assert await read(consumer, 1) == [0]
        (fetched, *_) = await consumer.fetch_columns()
        assert fetched.columns.offsets[0] == 1
        await consumer.seek(ORDERS, 0)
        assert await read(consumer, good) == list(range(good))
        with pytest.raises(DamagedBatch):
            await consumer.fetch()


async def test_after_closing(orders: FakeBroker, mq: Client) -> None:
    consumer = mq.subscribe("orders")
    assert await read(consumer, 1) == [0]
    await consumer.close()
    await consumer.close()
    with pytest.raises(ClientClosed):
        await read(consumer, 1)


async def test_a_cancelled_read_loses_nothing(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", start="latest") as consumer:
        for turns in range(10):
            reading = asyncio.ensure_future(consumer.fetch())
            for _ in range(turns):
                await asyncio.sleep(0)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        fill(orders, 5)
        assert len(await consumer.fetch()) == 5


async def test_topics_are_created_on_first_use(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-4: by writing, and by reading where that is wanted: a misspelt name makes no topic."""
    async with mq.subscribe("fresh"):
        assert "fresh" not in broker.topics
    async with mq.subscribe("fresh", on_missing_topic="create"):
        assert "fresh" in broker.topics


async def test_a_start_that_fails_leaves_nothing(broker: FakeBroker, mq: Client) -> None:
    broker.creates_topics = False
    consumer = mq.subscribe("nothing", group="billing", on_missing_topic="create")
    with pytest.raises(UnknownTopic):
        await consumer.__aenter__()
    with pytest.raises(ClientClosed):
        await consumer.fetch()


async def test_closing_during_the_start(orders: FakeBroker, mq: Client) -> None:
    """Who starts it is told, and no task is left that nobody would end."""
    orders.script[pb.CALL_FIND_OFFSET].append(HOLD)
    before = asyncio.all_tasks()
    consumer = mq.subscribe("orders", group="billing")
    reading = asyncio.ensure_future(consumer.fetch())
    await orders.until(lambda: bool(orders.held))
    await consumer.close()
    orders.release()
    with pytest.raises(ClientClosed):
        await reading
    assert asyncio.all_tasks() == before


async def test_a_topic_deleted_by_others_is_made_again(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-4, R-CORE-5: a new consumer does not believe a cached route."""
    await mq.publish("orders", b"0")
    broker.topics["orders"] = [FakePartition(), FakePartition()]
    async with mq.subscribe("orders") as consumer:
        assert len(consumer.partitions) == 2
    del broker.topics["orders"]
    async with mq.subscribe("orders", on_missing_topic="create") as consumer:
        assert len(consumer.partitions) == 1


async def test_reading_nothing_is_a_mistake(orders: FakeBroker, mq: Client) -> None:
    async with mq.consumer() as consumer:
        with pytest.raises(InvalidRequest, match="assign"):
            await consumer.fetch()
        with pytest.raises(InvalidRequest, match="assign"):
            await consumer.fetch_columns()
        await consumer.assign([ORDERS])
        assert len(await consumer.fetch()) == 20


async def test_an_assignment_whose_commit_fails_changes_nothing(
    orders: FakeBroker, mq: Client
) -> None:
    orders.create("other", 1)
    async with mq.subscribe("orders", group="billing") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        await message.ack()
        orders.script[pb.CALL_COMMIT_OFFSETS].append(StorageFailed("No disk."))
        with pytest.raises(StorageFailed):
            await consumer.assign([("other", 0)])
        assert consumer.partitions == [ORDERS]
        assert await read(consumer, 1) == [1]
        await consumer.assign([("other", 0)])
        assert consumer.partitions == [("other", 0)]
        await consumer.commit()


async def test_partitions_found_while_others_are_assigned_are_not_read(
    orders: FakeBroker, mq: Client
) -> None:
    async with mq.subscribe("orders") as consumer:
        orders.script[pb.CALL_FIND_OFFSET].append(HOLD)
        await mq.admin.add_partitions("orders", 2)
        await orders.until(lambda: bool(orders.held))  # the new one's first offset
        assigning = asyncio.ensure_future(consumer.assign([ORDERS]))
        await asyncio.sleep(0)
        orders.release()
        await assigning
        for _ in range(20):
            await asyncio.sleep(0)
        assert consumer.partitions == [ORDERS]


async def test_a_seek_in_a_partition_that_is_taken_away_meanwhile(
    orders: FakeBroker, mq: Client
) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        orders.script[pb.CALL_FIND_OFFSET].append(HOLD)
        seeking = asyncio.ensure_future(consumer.seek(ORDERS, "latest"))
        await orders.until(lambda: bool(orders.held))
        await consumer.assign([])
        orders.release()
        with pytest.raises(InvalidRequest, match="orders-0"):
            await seeking


async def test_busy_partitions_do_not_hide_the_failure_of_another(
    broker: FakeBroker, mq: Client
) -> None:
    """The reader is told when it has taken what was fetched before, not when all others idle."""
    broker.create("orders", 2)
    endless, broken = broker.topics["orders"]
    read_endless = endless.read

    def read_more(offset: int, max_bytes: int) -> bytes:
        fill(broker, 5)
        return read_endless(offset, max_bytes)

    def fail(offset: int, max_bytes: int) -> bytes:
        raise CorruptLog("Bad disk.")

    endless.read, broken.read = read_more, fail  # type: ignore[method-assign]
    async with mq.subscribe("orders", buffer_bytes=10_000) as consumer:
        chunks = consumer._fetcher.buffer
        for _ in range(50):
            await broker.until(lambda: len(chunks) > 1)
            try:
                await consumer.fetch()
            except CorruptLog:
                return
    pytest.fail("the failure was not told")


async def test_several_tasks_may_read_from_one_consumer(orders: FakeBroker, mq: Client) -> None:
    """Each message goes to one of them; what one leaves of a list, the next one gets."""
    seen: list[int] = []
    async with mq.subscribe("orders", start="latest") as consumer:

        async def work() -> None:
            while len(seen) < 40:
                messages = await consumer.fetch(max_messages=3, timeout_s=0.1)
                seen.extend(message.offset for message in messages)
                for _ in range(60):
                    await asyncio.sleep(0)

        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(work())
            for _ in range(8):
                for _ in range(20):
                    await asyncio.sleep(0)
                fill(orders, 5)
    assert sorted(seen) == list(range(20, 60))


@pytest.mark.parametrize(
    "settings",
    [
        {"partitions": [0]},
        {"assignor": "ring"},
        {"instance_id": "one"},
        {"point_to_point": True},
        {"on_revoked": print},
        {"group": "g", "partitions": [0], "assignor": "ring"},
        {"group": "g", "assignor": "manual"},
        {"group": "g", "partitions": []},
        {"group": "g", "partitions": [-1]},
        {"group": "g", "partitions": [2**40]},
        {"group": "g", "partitions": ["orders"]},
        {"group": "g", "partitions": [("orders", -1)]},
    ],
)
async def test_senseless_settings(mq: Client, settings: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig):
        mq.subscribe("orders", **settings)  # type: ignore[arg-type]


async def test_a_list_of_topics_is_not_a_topic(mq: Client) -> None:
    for begin in (mq.subscribe, mq.share):
        with pytest.raises(InvalidRequest, match="one by one"):
            begin(["orders", "events"], group="g")  # type: ignore[arg-type]


async def test_claims_say_of_which_topic(mq: Client) -> None:
    with pytest.raises(InvalidConfig, match="pairs"):
        mq.subscribe("orders", "events", group="g", partitions=[0])
    with pytest.raises(InvalidConfig, match="no topic"):
        mq.consumer(group="g", partitions=[("orders", 0)])
