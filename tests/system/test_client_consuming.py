"""Reading through the public face, from a real broker: every message once, in order."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import penstock
from penstock import Message, PartitionColumns
from penstock.model.errors import ClientClosed, InvalidConfig, InvalidRequest, OffsetOutOfRange
from tests.kit.records.column_rows import rows_of
from tests.system.clients import (
    PATIENCE_S,
    publish_numbers,
    read,
    read_numbers,
    tidy_client,
    until,
)

Start = int | datetime | str
FIRST_MOMENT = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture
async def numbers(penstock_broker: str, penstock_topic: str) -> str:
    """A topic of 100 numbers in one partition, one for each second from FIRST_MOMENT on."""
    async with (
        penstock.connect(penstock_broker) as mq,
        mq.producer(batch_bytes=1024) as producer,
    ):
        for number in range(100):
            moment = FIRST_MOMENT + timedelta(seconds=number)
            await producer.send(
                penstock_topic, b"%d" % number, timestamp_ms=int(moment.timestamp() * 1000)
            )
    return penstock_topic


def rows(entry: PartitionColumns) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """Offset, time, key and value of each row, out of the columns' buffers."""
    return [row[:4] for row in rows_of(entry.columns)]


async def test_several_partitions_each_in_order(penstock_broker: str, penstock_topic: str) -> None:
    """R-CORE-1, R-STO-2: everything once, in order inside each partition."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, partitions=6)
        async with mq.producer(batch_bytes=1024) as producer:
            for number in range(6000):
                await producer.send(penstock_topic, b"%d" % number, partition=number % 6)
        async with mq.consumer(penstock_topic, buffer_bytes=10_000) as consumer:
            messages = await read(consumer, 6000)
    for partition in range(6):
        own = [message for message in messages if message.partition == partition]
        assert [message.offset for message in own] == list(range(1000))
        assert [int(message.value or b"") for message in own] == list(range(partition, 6000, 6))


async def test_lists_as_they_were_fetched(penstock_broker: str, numbers: str) -> None:
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers) as consumer:
        found: list[Message] = []
        async with asyncio.timeout(PATIENCE_S):
            async for messages in consumer.batches():
                assert len(messages) > 1
                found += messages
                if len(found) == 100:
                    break
        assert [int(message.value or b"") for message in found] == list(range(100))


async def test_ways_of_reading_may_change_in_between(penstock_broker: str, numbers: str) -> None:
    """R-STO-2: one by one, some, columns, one by one again: nothing repeated, nothing skipped."""
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers) as consumer:
        assert await read_numbers(consumer, 10) == list(range(10))
        found = [int(message.value or b"") for message in await consumer.fetch(max_messages=7)]
        assert found == list(range(10, 17))
        await consumer.seek((numbers, 0), consumer.position((numbers, 0)))
        assert (await read_numbers(consumer, 1)) == [17]
        left = 82
        while left:
            for entry in await consumer.fetch_columns(timeout_s=PATIENCE_S):
                assert entry.columns.offsets[0] == 100 - left
                left -= entry.columns.record_count
        await publish_numbers(mq, numbers, range(100, 105))
        assert await read_numbers(consumer, 5) == list(range(100, 105))


async def test_columns_hold_what_was_sent(penstock_broker: str, penstock_topic: str) -> None:
    sent: list[tuple[int, int, bytes | None, bytes | None]] = []
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer(compression="lz4", batch_bytes=2048) as producer:
            for number in range(500):
                key = b"key %d" % number if number % 3 else None
                value = b"v" * (number % 50) if number % 7 else None
                sent.append((number, 1_000_000 + number, key, value))
                headers = [("n", b"%d" % number)] if number % 2 else None
                await producer.send(
                    penstock_topic, value, key, headers=headers, timestamp_ms=1_000_000 + number
                )
        async with mq.consumer(penstock_topic) as consumer:
            found: list[tuple[int, int, bytes | None, bytes | None]] = []
            names = bytearray()
            while len(found) < 500:
                fetched = await consumer.fetch_columns(timeout_s=PATIENCE_S, include_headers=True)
                for entry in fetched:
                    assert (entry.topic, entry.partition) == (penstock_topic, 0)
                    assert entry.columns.headers is not None
                    names += entry.columns.headers.values.data
                    found += rows(entry)
            assert await consumer.fetch_columns(timeout_s=0.01) == []
    assert found == sent
    assert names == b"".join(b"%d" % number for number in range(1, 500, 2))


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 0),
        ("latest", 100),
        (37, 37),
        (FIRST_MOMENT + timedelta(seconds=42), 42),
        (FIRST_MOMENT + timedelta(seconds=42.5), 43),
        (FIRST_MOMENT - timedelta(days=1), 0),
        (FIRST_MOMENT + timedelta(days=1), 100),
    ],
    ids=str,
)
async def test_starts(penstock_broker: str, numbers: str, start: Start, first: int) -> None:
    """R-DEL-10: at the first message, the next, any offset, the first of a moment."""
    async with (
        tidy_client(penstock_broker) as mq,
        mq.consumer(numbers, start=start) as consumer,  # type: ignore[arg-type]
    ):
        assert consumer.position((numbers, 0)) == first
        await publish_numbers(mq, numbers, range(100, 110))
        assert await read_numbers(consumer, 110 - first) == list(range(first, 110))


async def test_wrong_starts_say_what_is_right(penstock_broker: str, numbers: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        with pytest.raises(InvalidConfig, match="time zone"):
            mq.consumer(numbers, start=datetime(2024, 5, 1))  # noqa: DTZ001
        with pytest.raises(InvalidConfig, match="earliest"):
            mq.consumer(numbers, start="begin")  # type: ignore[arg-type]
        async with mq.consumer(numbers, start=1000, on_out_of_range="error") as consumer:
            with pytest.raises(OffsetOutOfRange, match="1000"):
                await read(consumer, 1)
            await consumer.seek((numbers, 0), 99)
            assert await read_numbers(consumer, 1) == [99]
        async with mq.consumer(numbers, start=1000, on_out_of_range="latest") as consumer:
            reading = asyncio.ensure_future(read_numbers(consumer, 1))
            async with asyncio.timeout(PATIENCE_S):
                while not reading.done():
                    await mq.publish(numbers, b"7")
                    await asyncio.sleep(0.005)
            assert await reading == [7]


async def test_seeking(penstock_broker: str, numbers: str) -> None:
    """R-DEL-10: by offset and by time, back and forth, also in the middle of a loop."""
    partition = (numbers, 0)
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers) as consumer:
        assert await read_numbers(consumer, 3) == [0, 1, 2]
        await consumer.seek(partition, 90)
        assert await read_numbers(consumer, 10) == list(range(90, 100))
        await consumer.seek_to_time(FIRST_MOMENT + timedelta(seconds=55))
        assert await read_numbers(consumer, 2) == [55, 56]
        await consumer.seek(partition, "earliest")
        assert await read_numbers(consumer, 1) == [0]
        await consumer.seek(partition, "latest")
        await mq.publish(numbers, b"100")
        assert await read_numbers(consumer, 1) == [100]
        with pytest.raises(InvalidRequest, match="assign it first"):
            await consumer.seek((numbers, 1), 0)


async def test_pause_and_resume(penstock_broker: str, penstock_topic: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, partitions=2)
        for number in range(200):
            await mq.producer().send(penstock_topic, b"x", partition=number % 2)
        async with mq.consumer(penstock_topic) as consumer:
            first = await read(consumer, 1)
            paused = (penstock_topic, first[0].partition)
            consumer.pause(paused)
            others = await read(consumer, 100)
            assert {message.partition for message in others} == {1 - first[0].partition}
            assert await consumer.fetch(timeout_s=0.05) == []
            consumer.resume(paused)
            rest = await read(consumer, 99)
            assert [message.offset for message in rest] == list(range(1, 100))


async def test_it_waits_without_asking_again_and_again(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-DEL-6: long polling. An idle consumer costs next to nothing, a message comes at once."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic)
        async with mq.consumer(penstock_topic) as consumer:
            reading = asyncio.ensure_future(consumer.fetch(timeout_s=PATIENCE_S))
            loop = asyncio.get_running_loop()
            await asyncio.sleep(0.3)
            started_s = loop.time()
            await mq.publish(penstock_topic, b"now")
            (message,) = await reading
            assert message.value == b"now"
            assert loop.time() - started_s < 1, "well below the five seconds of a long poll"


async def test_new_partitions_are_found_while_reading(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-CORE-5: routes are refreshed on a timer, by producers and consumers at work."""
    async with (
        penstock.connect(penstock_broker) as operator,
        tidy_client(penstock_broker, route_refresh_ms=50) as mq,
    ):
        await mq.publish(penstock_topic, b"before")
        async with mq.consumer(penstock_topic, start="latest") as consumer:
            reading = asyncio.ensure_future(read(consumer, 2))
            await operator.admin.add_partitions(penstock_topic, 3)
            await operator.publish(penstock_topic, b"1", partition=1)
            await until(lambda: len(consumer.partitions) == 3)
            await mq.publish(penstock_topic, b"2", partition=2)
            found = {(message.partition, message.value) for message in await reading}
            assert found == {(1, b"1"), (2, b"2")}


async def test_assigned_partitions(penstock_broker: str, penstock_topic: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, partitions=3)
        for partition in range(3):
            await mq.publish(penstock_topic, b"%d" % partition, partition=partition)
        async with mq.consumer() as consumer:
            await consumer.assign([(penstock_topic, 2)])
            assert await read_numbers(consumer, 1) == [2]
            await consumer.assign([(penstock_topic, 0), (penstock_topic, 1)])
            assert sorted(await read_numbers(consumer, 2)) == [0, 1]
            assert set(consumer.partitions) == {(penstock_topic, 0), (penstock_topic, 1)}


@pytest.fixture
def group(penstock_topic: str) -> str:
    return f"group of {penstock_topic}"


async def test_a_group_goes_on_where_it_was(penstock_broker: str, numbers: str, group: str) -> None:
    """R-DEL-10: the broker keeps offsets per group and partition; another group is on its own."""
    partition = (numbers, 0)
    async with tidy_client(penstock_broker) as mq:
        async for message in mq.subscribe(numbers, group=group):
            await message.ack()
            if message.offset == 29:
                break
    async with tidy_client(penstock_broker) as mq:
        assert await mq.admin.group_offsets(group) == {partition: 30}
        assert group in await mq.admin.list_groups()
        async with mq.consumer(numbers, group=group, start="latest") as consumer:
            assert await read_numbers(consumer, 5) == list(range(30, 35))
            await consumer.commit()
            assert await consumer.committed(partition) == 35
        async with mq.consumer(numbers, group=f"other {group}", start=50) as consumer:
            assert await read_numbers(consumer, 1) == [50]
        # Nothing was acknowledged; but who begins elsewhere than at the beginning has a place.
        assert await mq.admin.group_offsets(f"other {group}") == {partition: 50}


async def test_the_first_message_that_was_not_acknowledged_comes_again(
    penstock_broker: str, numbers: str, group: str
) -> None:
    """R-DEL-10: acknowledged in any order; none is skipped after a crash of the consumer."""
    async with tidy_client(penstock_broker) as mq:
        async with mq.consumer(numbers, group=group) as consumer:
            messages = await read(consumer, 50)
            for message in reversed(messages):
                if message.offset != 20:
                    await message.ack()
        async with mq.consumer(numbers, group=group) as consumer:
            (message,) = await consumer.fetch(max_messages=1)
            assert message.offset == 20


async def test_acknowledgements_reach_the_broker_by_themselves(
    penstock_broker: str, numbers: str, group: str
) -> None:
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers, group=group) as consumer:
        for message in await read(consumer, 50):
            await message.ack()
        async with asyncio.timeout(PATIENCE_S):
            while await consumer.committed((numbers, 0)) != 50:
                await asyncio.sleep(0.01)


async def test_commit_follows_a_seek(penstock_broker: str, numbers: str, group: str) -> None:
    """R-DEL-10: a consumer sets its group's place where it wants it, backwards too."""
    partition = (numbers, 0)
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers, group=group) as consumer:
        await read(consumer, 30)
        await consumer.commit()
        await consumer.seek(partition, 10)
        await consumer.commit()
        assert await consumer.committed(partition) == 10
        await consumer.commit({partition: 70})
        assert await consumer.committed(partition) == 70
    async with tidy_client(penstock_broker) as mq:
        assert await mq.admin.group_offsets(group) == {partition: 70}, "closing leaves it there"


async def test_acknowledging_needs_a_group_and_an_open_consumer(
    penstock_broker: str, numbers: str, group: str
) -> None:
    async with tidy_client(penstock_broker) as mq:
        async with mq.consumer(numbers) as consumer:
            (message,) = await consumer.fetch(max_messages=1)
            with pytest.raises(InvalidRequest, match="group="):
                await message.ack()
        async with mq.consumer(numbers, group=group) as consumer:
            (message,) = await consumer.fetch(max_messages=1)
        with pytest.raises(ClientClosed):
            await message.ack()
        with pytest.raises(ClientClosed):
            await consumer.fetch()
        with pytest.raises(ClientClosed):
            await read(consumer, 1)


async def test_cancelled_reads_lose_nothing_and_leave_nothing(
    penstock_broker: str, numbers: str
) -> None:
    """Wherever it is cancelled: the next read goes on there, and no task is left."""
    async with tidy_client(penstock_broker) as mq, mq.consumer(numbers) as consumer:
        seen: list[int] = []

        async def loop() -> None:
            async for message in consumer:
                seen.append(int(message.value or b""))
                await asyncio.sleep(0)

        for turns in range(20):
            looping = asyncio.ensure_future(loop())
            for _ in range(turns):
                await asyncio.sleep(0)
            looping.cancel()
            await asyncio.gather(looping, return_exceptions=True)
        while len(seen) < 100:
            seen += [int(message.value or b"") for message in await consumer.fetch()]
        assert seen == list(range(100))


async def test_the_client_ends_under_a_reader(penstock_broker: str, numbers: str) -> None:
    """Who still reads when the client is closed is told, and not left to wait."""
    async with penstock.connect(penstock_broker) as mq:
        reading = asyncio.ensure_future(read(mq.consumer(numbers), 101))
        await asyncio.sleep(0.05)
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(ClientClosed):
            await reading
