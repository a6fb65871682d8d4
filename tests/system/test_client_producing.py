"""Publishing through the public face, to a real broker: what was acknowledged is there."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Literal

import pytest

import penstock
from penstock import DeliveryFailed, Message
from penstock.model.errors import (
    BatchTooLarge,
    ClientClosed,
    InvalidConfig,
    InvalidRequest,
    InvalidTopic,
    PenstockError,
    TooManyPartitions,
    UnknownTopic,
)
from tests.system.clients import publish_numbers, read, read_numbers, tidy_client, until

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]


async def everything(address: str, topic: str) -> list[Message]:
    """All that is in a topic now; in order, for each partition."""
    async with tidy_client(address) as mq:
        description = await mq.admin.describe_topic(topic)
        count = sum(partition.high_watermark for partition in description.partitions)
        if not count:
            return []
        async with mq.consumer(topic) as consumer:
            return await read(consumer, count)


async def test_a_message_arrives_as_it_was_given(penstock_broker: str, penstock_topic: str) -> None:
    """R-CORE-2: key, value, headers and time; each may be missing, and empty is not missing."""
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None)]
    async with tidy_client(penstock_broker) as mq:
        receipt = await mq.publish(
            penstock_topic, b"one book", key=b"alice", headers=headers, timestamp_ms=1234
        )
        assert (receipt.topic, receipt.partition, receipt.offset) == (penstock_topic, 0, 0)
        assert (receipt.timestamp_ms, receipt.duplicate) == (1234, False)
        for offset, (key, value) in enumerate([(b"k", None), (None, b""), (b"", b"v")], 1):
            assert (await mq.publish(penstock_topic, value, key)).offset == offset
    first, deleted, empty, no_key = await everything(penstock_broker, penstock_topic)
    assert (first.key, first.value, first.headers) == (b"alice", b"one book", tuple(headers))
    assert (first.timestamp_ms, first.timestamp_type) == (1234, "create")
    assert (deleted.key, deleted.value, deleted.headers) == (b"k", None, ())
    assert (empty.key, empty.value) == (None, b"")
    assert (no_key.key, no_key.value) == (b"", b"v")
    assert deleted.timestamp_ms > 1_600_000_000_000, "the clock, where no time was given"


async def test_the_brokers_time_where_the_topic_asks_for_it(
    penstock_broker: str, penstock_topic: str
) -> None:
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, config={"timestamp_type": "append"})
        receipt = await mq.publish(penstock_topic, b"value", timestamp_ms=5)
        assert receipt.timestamp_ms > 1_600_000_000_000
        (message,) = await everything(penstock_broker, penstock_topic)
        assert (message.timestamp_ms, message.timestamp_type) == (receipt.timestamp_ms, "append")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression(
    penstock_broker: str, penstock_topic: str, compression: Compression
) -> None:
    values = [b"again and again %d " % (number % 7) * 20 for number in range(500)]
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer(compression=compression) as producer:
            for value in values:
                await producer.send(penstock_topic, value, key=b"k", headers=[("h", b"1")])
        (partition,) = (await mq.admin.describe_topic(penstock_topic)).partitions
        assert (partition.size_bytes < sum(map(len, values)) / 4) == (compression != "none")
    messages = await everything(penstock_broker, penstock_topic)
    assert [message.value for message in messages] == values
    assert all(message.key == b"k" and message.headers == (("h", b"1"),) for message in messages)


async def test_a_key_has_one_partition_and_its_order(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-CORE-1, R-CORE-2: by hash of the key, in order; the user gives only the topic."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, partitions=5)
        async with mq.producer(batch_bytes=1024, linger_ms=0) as producer:
            for number in range(2000):
                await producer.send(penstock_topic, b"%d" % number, key=b"key %d" % (number % 23))
    partitions: dict[bytes, set[int]] = defaultdict(set)
    numbers: dict[bytes, list[int]] = defaultdict(list)
    for message in await everything(penstock_broker, penstock_topic):
        assert message.key is not None
        partitions[message.key].add(message.partition)
        numbers[message.key].append(int(message.value or b""))
    assert len(partitions) == 23
    assert all(len(found) == 1 for found in partitions.values())
    assert len(set.union(*partitions.values())) == 5, "keys are spread"
    assert all(found == sorted(found) for found in numbers.values())
    assert sum(map(len, numbers.values())) == 2000


async def test_messages_without_a_key_go_round_the_partitions(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-CORE-2: others round robin, a batch at a time, so every partition gets its share."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, partitions=4)
        async with mq.producer(batch_bytes=1024) as producer:
            for _ in range(1000):
                await producer.send(penstock_topic, b"x" * 100)
        description = await mq.admin.describe_topic(penstock_topic)
        assert [partition.high_watermark for partition in description.partitions] == (
            pytest.approx([250] * 4, abs=10)
        )
        chosen = await mq.publish(penstock_topic, b"here", key=b"k", partition=3)
        assert chosen.partition == 3


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_every_kind_of_acknowledgement(
    penstock_broker: str, penstock_topic: str, acks: Literal[0, 1, "all"]
) -> None:
    """R-PRO-1: sent; on the leader; everywhere. On one broker nothing is lost by any of them."""
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer(acks=acks, linger_ms=0) as producer:
            for number in range(100):
                await producer.send(penstock_topic, b"%d" % number)
            receipt = await producer.publish(penstock_topic, b"100")
            assert receipt.offset == (-1 if acks == 0 else 100)
            assert producer.errors == ()
        async with mq.consumer(penstock_topic) as consumer:
            assert await read_numbers(consumer, 101) == list(range(101))


async def test_with_acks_0_refusals_are_kept_to_be_looked_at(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-PRO-1: nothing is confirmed, but what the broker says anyway is not thrown away."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, config={"batch_bytes_max": "1024"})
        async with mq.producer(acks=0, linger_ms=0) as producer:
            await producer.publish(penstock_topic, b"x" * 2000)
            await until(lambda: bool(producer.errors))
            assert isinstance(producer.errors[0], BatchTooLarge)


async def test_receipts_of_messages_in_flight_together(
    penstock_broker: str, penstock_topic: str
) -> None:
    async with tidy_client(penstock_broker) as mq, mq.producer() as producer:
        futures = [await producer.submit(penstock_topic, b"%d" % number) for number in range(500)]
        await producer.flush()
        assert [future.result().offset for future in futures] == list(range(500))


async def test_an_unknown_topic_is_made_on_first_use_unless_that_is_turned_off(
    penstock_broker: str, penstock_topic: str
) -> None:
    """R-CORE-4."""
    async with tidy_client(penstock_broker) as mq:
        assert (await mq.publish(penstock_topic, b"value")).offset == 0
    with penstock.testing.broker(auto_create_topics=False) as address:
        async with tidy_client(address) as mq:
            with pytest.raises(UnknownTopic, match=r"(?s)orders.*does not create topics itself"):
                await mq.publish("orders", b"value")
            with pytest.raises(UnknownTopic, match="orders"):
                async with mq.consumer("orders", on_missing_topic="error"):
                    pass
            await mq.admin.create_topic("orders")
            assert (await mq.publish("orders", b"value")).offset == 0


async def test_the_eleventh_partition_is_refused(penstock_broker: str, penstock_topic: str) -> None:
    """R-CORE-4: ten by default, and the error says which setting to raise."""
    async with tidy_client(penstock_broker) as mq:
        with pytest.raises(TooManyPartitions, match="partitions_per_topic_max"):
            await mq.admin.create_topic(penstock_topic, partitions=11)
        await mq.admin.create_topic(penstock_topic, partitions=10)
        with pytest.raises(TooManyPartitions, match="10 is the limit"):
            await mq.admin.add_partitions(penstock_topic, 11)
        assert len((await mq.admin.describe_topic(penstock_topic)).partitions) == 10


@pytest.mark.parametrize("name", ["", ".", "a/b", "white space", "ä", "x" * 250])
async def test_names_that_no_topic_can_have(penstock_broker: str, name: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        for attempt in (mq.publish(name, b"value"), mq.admin.create_topic(name)):
            with pytest.raises(InvalidTopic):
                await attempt
        with pytest.raises(InvalidTopic):
            async with mq.consumer(name):
                pass


async def test_wrong_partitions_and_types_say_what_is_right(
    penstock_broker: str, penstock_topic: str
) -> None:
    async with tidy_client(penstock_broker) as mq:
        with pytest.raises(InvalidRequest, match="it has 1, numbered from 0"):
            await mq.publish(penstock_topic, b"value", partition=1)
        with pytest.raises(TypeError, match=r"value\.encode\(\)"):
            await mq.publish(penstock_topic, "text")  # type: ignore[arg-type]
        with pytest.raises(InvalidTopic, match="broker's own"):
            await mq.publish("__group_offsets", b"value")
        assert (await mq.publish(penstock_topic, b"value")).offset == 0, "nothing was written"


async def test_what_the_topic_does_not_take_fails_alone(
    penstock_broker: str, penstock_topic: str
) -> None:
    """A batch that is refused costs its own messages and no others, and their order holds."""
    async with tidy_client(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, config={"batch_bytes_max": "2048"})
        async with mq.producer(batch_bytes=1024, linger_ms=0) as producer:
            for number in range(50):
                await producer.send(penstock_topic, b"%d" % number)
                if number % 20 == 10:
                    await producer.send(penstock_topic, b"x" * 5000)
            with pytest.raises(DeliveryFailed, match="batch_bytes_max") as raised:
                await producer.flush()
            (failure,) = raised.value.failures
            assert (failure.topic, failure.partition) == (penstock_topic, 0)
            assert failure.message_count == 2
            assert isinstance(failure.cause, BatchTooLarge)
            with pytest.raises(BatchTooLarge, match="batch_bytes_max"):
                await producer.publish(penstock_topic, b"x" * 5000)
            await producer.flush()  # told once
        async with mq.consumer(penstock_topic) as consumer:
            assert await read_numbers(consumer, 50) == list(range(50))


async def test_what_the_buffer_does_not_take_is_refused_at_once(
    penstock_broker: str, penstock_topic: str
) -> None:
    async with tidy_client(penstock_broker) as mq:
        with pytest.raises(InvalidConfig, match="buffer_bytes is 1024"):
            mq.producer(buffer_bytes=1024)
        async with mq.producer(batch_bytes=2048, buffer_bytes=4096) as producer:
            await producer.send(penstock_topic, b"before")
            with pytest.raises(BatchTooLarge, match="buffer_bytes"):
                await producer.send(penstock_topic, b"x" * 5000)
            await producer.send(penstock_topic, b"after")
    messages = await everything(penstock_broker, penstock_topic)
    assert [message.value for message in messages] == [b"before", b"after"]


async def test_many_senders_share_a_small_buffer(penstock_broker: str, penstock_topic: str) -> None:
    """Back-pressure: who finds the buffer full waits, in order, and nothing is lost."""
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer(batch_bytes=1024, buffer_bytes=2048, linger_ms=60_000) as producer:

            async def send(sender: int) -> None:
                for number in range(100):
                    await producer.send(penstock_topic, b"%d %d" % (sender, number))

            async with asyncio.timeout(20):
                await asyncio.gather(*(send(sender) for sender in range(20)))
        seen: dict[int, list[int]] = defaultdict(list)
        async with mq.consumer(penstock_topic) as consumer:
            for message in await read(consumer, 2000):
                sender, number = map(int, (message.value or b"").split())
                seen[sender].append(number)
    assert all(numbers == list(range(100)) for numbers in seen.values())


async def test_several_producers_at_once(penstock_broker: str, penstock_topic: str) -> None:
    """R-CORE-1: each producer's messages stay in order, beside the others'."""
    async with tidy_client(penstock_broker) as mq:
        async with asyncio.TaskGroup() as group:
            for first in (0, 1000, 2000):
                group.create_task(publish_numbers(mq, penstock_topic, range(first, first + 500)))
        async with mq.consumer(penstock_topic) as consumer:
            numbers = await read_numbers(consumer, 1500)
    for first in (0, 1000, 2000):
        own = [number for number in numbers if first <= number < first + 1000]
        assert own == list(range(first, first + 500))


async def test_cancelled_sends_and_flushes_leave_nothing(
    penstock_broker: str, penstock_topic: str
) -> None:
    """Cancelled wherever it waits; the producer goes on, and no task is left (`tidy_client`)."""
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer(batch_bytes=1024, buffer_bytes=2048, linger_ms=50) as producer:
            for turns in range(12):
                work = [
                    asyncio.ensure_future(producer.publish(penstock_topic, b"x" * 900)),
                    asyncio.ensure_future(producer.publish(penstock_topic, b"x" * 900)),
                    asyncio.ensure_future(producer.publish(penstock_topic, b"x" * 900)),
                    asyncio.ensure_future(producer.flush()),
                ]
                for _ in range(turns):
                    await asyncio.sleep(0)
                for task in work:
                    task.cancel()
                await asyncio.gather(*work, return_exceptions=True)
            receipt = await producer.publish(penstock_topic, b"last")
        messages = await everything(penstock_broker, penstock_topic)
        assert messages[-1].value == b"last"
        assert messages[-1].offset == receipt.offset == len(messages) - 1


async def test_after_closing(penstock_broker: str, penstock_topic: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        async with mq.producer() as producer:
            await producer.send(penstock_topic, b"value")
        for attempt in (producer.send, producer.publish, producer.submit):
            with pytest.raises(ClientClosed, match="make another one"):
                await attempt(penstock_topic, b"value")
        await producer.close()
        await mq.publish(penstock_topic, b"value")
    for make in (mq.producer, mq.consumer, lambda: mq.admin):
        with pytest.raises(ClientClosed, match="async with"):
            make()
    with pytest.raises(ClientClosed, match="async with"):
        await mq.publish(penstock_topic, b"value")


async def test_nobody_there_is_said_quickly() -> None:
    """No broker at the address: an error that names it, not a wait for a timeout."""
    async with asyncio.timeout(2):
        with pytest.raises(PenstockError, match=r"127\.0\.0\.1:1.*refused"):
            async with penstock.connect("127.0.0.1:1"):
                pass


async def test_somebody_else_there_is_said_quickly() -> None:
    """Another kind of server at the address is no reason to give up the other addresses."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    async with server, asyncio.timeout(2):
        with pytest.raises(PenstockError, match=f"{host}:{port}"):
            async with penstock.connect(f"{host}:{port}"):
                pass
        with penstock.testing.broker() as address:
            async with penstock.connect(f"{host}:{port},{address}") as mq:
                assert (await mq.publish("orders", b"value")).offset == 0
