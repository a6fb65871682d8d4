"""The producer as its users see it."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.errors import DeliveryFailed
from penstock.client.producing.producer import Compression
from penstock.model.errors import BatchTooLarge, Busy, ClientClosed, InvalidRequest, InvalidTopic
from penstock.protocol import penstock_pb2 as pb
from penstock.records import EncodedBatch, Message, build_batch, decode_messages
from tests.kit.client.fake_broker import DO, HOLD, LOSE_ANSWER, FakeBroker

PRODUCE = pb.CALL_PRODUCE


def messages(broker: FakeBroker, topic: str = "orders", partition: int = 0) -> list[Message]:
    return [
        message
        for _, batch in broker.topics[topic][partition].batches
        for message in decode_messages(batch, topic, partition, 0)
    ]


async def test_what_is_sent_arrives_as_it_was(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-2: key, value, headers and time; any of them may be missing."""
    headers = [("trace", b"1"), ("empty", None)]
    async with mq.producer() as producer:
        await producer.send("orders", b"value", b"key", headers=headers, timestamp_ms=5)
        await producer.send("orders", None, b"key")
        await producer.send("orders", b"")
        await producer.send("orders", bytearray(b"array"), memoryview(b"view"))  # type: ignore[arg-type]
    first, deleted, empty, other = messages(broker)
    assert (first.value, first.key, first.headers) == (b"value", b"key", tuple(headers))
    assert first.timestamp_ms == 5
    assert (deleted.value, deleted.key) == (None, b"key")
    assert (empty.value, empty.key, empty.headers) == (b"", None, ())
    assert abs(empty.timestamp_ms - deleted.timestamp_ms) < 1000
    assert (other.value, other.key) == (b"array", b"view")


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression(broker: FakeBroker, mq: Client, compression: Compression) -> None:
    async with mq.producer(compression=compression) as producer:
        for _ in range(100):
            await producer.send("orders", b"again and again " * 10)
    assert [message.value for message in messages(broker)] == [b"again and again " * 10] * 100
    sent_bytes = sum(len(batch) for _, batch in broker.topics["orders"][0].batches)
    assert (sent_bytes < 5000) == (compression != "none")


async def test_receipts_are_made_where_they_are_asked_for(broker: FakeBroker, mq: Client) -> None:
    async with mq.producer() as producer:
        await producer.send("orders", b"0")
        future = await producer.submit("orders", b"1", timestamp_ms=7)
        await producer.send("orders", b"2")
        await producer.flush()
        receipt = future.result()
        assert (receipt.topic, receipt.partition, receipt.offset) == ("orders", 0, 1)
        assert (receipt.timestamp_ms, receipt.duplicate) == (7, False)
        assert (await producer.publish("orders", b"3")).offset == 3


async def test_messages_without_a_receipt_share_one_awaitable(
    broker: FakeBroker, mq: Client
) -> None:
    """No object per message: the awaitable of a queued message is the same every time."""
    async with mq.producer() as producer:
        await producer.send("orders", b"first")
        assert producer.send("orders", b"value") is producer.send("orders", b"value")


@pytest.mark.parametrize(
    ("value", "key", "headers", "advice"),
    [
        ("text", None, None, r"value.encode\(\)"),
        (b"value", "text", None, r"key.encode\(\)"),
        (b"value", None, {"name": b"x"}, "pairs"),
        (7, None, None, "int"),
    ],
)
async def test_text_is_refused_with_advice(
    mq: Client, value: bytes, key: bytes, headers: list[tuple[str, bytes]], advice: str
) -> None:
    async with mq.producer() as producer:
        for _ in range(2):  # the first with an unknown topic, the second with a known one
            with pytest.raises((TypeError, ValueError), match=advice):
                await producer.send("orders", value, key, headers=headers)
            with pytest.raises((TypeError, ValueError), match=advice):
                await producer.publish("orders", value, key, headers=headers)
            await producer.send("orders", b"good")


async def test_a_full_buffer_makes_send_wait(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].extend([HOLD] * 3)
    sent = 0
    async with mq.producer(batch_bytes=1024, buffer_bytes=3 * 1024) as producer:

        async def send_much() -> None:
            nonlocal sent
            for number in range(100):
                await producer.send("orders", b"%d " % number + b"x" * 100)
                sent += 1

        sending = asyncio.ensure_future(send_much())
        await broker.until(lambda: len(broker.held) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
        assert 20 < sent < 30
        broker.release()
        await sending
    values = [message.value or b"" for message in messages(broker)]
    assert [int(value.split()[0]) for value in values] == list(range(100))


async def test_a_batch_that_failed_leaves_its_room_to_others(
    broker: FakeBroker, mq: Client
) -> None:
    broker.script[PRODUCE].extend([BatchTooLarge()] * 3)
    async with (
        asyncio.timeout(10),
        mq.producer(batch_bytes=1024, buffer_bytes=2048, linger_ms=0) as producer,
    ):
        for _ in range(3):
            with pytest.raises(BatchTooLarge):
                await producer.publish("orders", b"x" * 900)
        await producer.publish("orders", b"y" * 900)


async def test_a_cancelled_send_leaves_nothing(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].append(HOLD)
    async with mq.producer(batch_bytes=1024, buffer_bytes=2048, linger_ms=0) as producer:
        await producer.send("orders", b"first")
        await broker.until(lambda: bool(broker.held))
        waiting = asyncio.ensure_future(producer.publish("orders", b"x" * 1900))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        broker.release()
        await producer.flush()
        await producer.send("orders", b"second")
    assert [message.value for message in messages(broker)] == [b"first", b"second"]


async def test_flush_covers_what_was_sent_before_it(broker: FakeBroker, mq: Client) -> None:
    async with mq.producer(linger_ms=10_000) as producer:
        await producer.flush()  # nothing: at once
        await producer.send("orders", b"value")
        assert broker.count(PRODUCE) == 0
        await producer.flush()
        assert len(messages(broker)) == 1


async def test_leaving_flushes_and_tells_of_failures(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].append(BatchTooLarge("Too large."))
    producer = await mq.producer(linger_ms=10_000).__aenter__()
    await producer.send("orders", b"0")
    await producer.send("orders", b"1")
    with pytest.raises(DeliveryFailed, match="2 messages"):
        await producer.__aexit__(None, None, None)


async def test_leaving_by_an_error_still_tries_to_deliver(
    broker: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    producer = await mq.producer(linger_ms=10_000).__aenter__()
    broker.script[PRODUCE].append(BatchTooLarge("Too large."))
    await producer.send("orders", b"value")
    error = LookupError("the reader's own")
    await producer.__aexit__(LookupError, error, None)
    assert "Too large." in caplog.text, "the caller's own error comes first, this is logged"


async def test_leaving_by_cancellation_is_at_once(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].extend([Busy()] * 10_000)

    async def work() -> None:
        async with mq.producer(linger_ms=0) as producer:
            await producer.publish("orders", b"value")

    working = asyncio.ensure_future(work())
    await broker.until(lambda: broker.count(PRODUCE) > 2)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working


async def test_after_closing_nothing_is_taken(mq: Client) -> None:
    async with mq.producer() as producer:
        await producer.send("orders", b"value")
    with pytest.raises(ClientClosed, match="closed"):
        await producer.send("orders", b"value")
    with pytest.raises(ClientClosed, match="closed"):
        await producer.publish("orders", b"value")
    await producer.close()


async def test_wrong_places_are_refused(broker: FakeBroker, mq: Client) -> None:
    async with mq.producer() as producer:
        with pytest.raises(InvalidTopic):
            await producer.send("no such/name", b"value")
        with pytest.raises(InvalidRequest, match="no partition 3"):
            await producer.send("orders", b"value", partition=3)
    assert messages(broker) == []


async def test_added_partitions_are_used(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-5: a refreshed route reaches producers at work."""
    async with mq.producer(linger_ms=0) as producer:
        await producer.publish("orders", b"value")
        await mq.admin.add_partitions("orders", 3)
        receipt = await producer.publish("orders", b"value", partition=2)
    assert receipt.partition == 2


async def test_flushes_at_the_same_time_are_all_told(broker: FakeBroker, mq: Client) -> None:
    """None ends well while a message that it waited for was lost."""
    broker.script[PRODUCE].append(BatchTooLarge("Too large."))
    async with mq.producer(linger_ms=10_000) as producer:
        await producer.send("orders", b"value")
        outcomes = await asyncio.gather(
            *(producer.flush() for _ in range(3)), return_exceptions=True
        )
        assert [type(outcome) for outcome in outcomes] == [DeliveryFailed] * 3
        await producer.flush()


def finished(partition: int, *values: bytes) -> EncodedBatch:
    return EncodedBatch(partition, len(values), build_batch([(None, value) for value in values]))


async def test_finished_batches_in_order_with_messages(broker: FakeBroker, mq: Client) -> None:
    broker.partition_count = 2
    async with mq.producer() as producer:
        await producer.send_batches("orders", [finished(0, b"0", b"1"), finished(1, b"a")])
        await producer.send("orders", b"2", partition=0)
        await producer.send_batches("orders", [finished(0, b"3")])
        await producer.flush()
        assert [message.value for message in messages(broker)] == [b"0", b"1", b"2", b"3"]
        assert [message.value for message in messages(broker, partition=1)] == [b"a"]


async def test_finished_batches_are_idempotent(broker: FakeBroker, mq: Client) -> None:
    """R-PRO-2: numbered like any other, whatever is lost on the way."""
    broker.create("orders", 1)
    broker.script[PRODUCE].extend([LOSE_ANSWER, DO, LOSE_ANSWER])
    async with mq.producer() as producer:
        await producer.send_batches("orders", [finished(0, b"%d" % n, b"-") for n in range(10)])
    assert [message.value for message in messages(broker)][::2] == [b"%d" % n for n in range(10)]
    headers = [header for header, _ in broker.topics["orders"][0].batches]
    assert [header.base_sequence for header in headers] == list(range(0, 20, 2))
    assert {header.producer_id for header in headers} == {101}


async def test_finished_batches_wait_for_room(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    async with mq.producer(batch_bytes=1024, buffer_bytes=2048) as producer:
        await producer.send_batches("orders", [finished(0, bytes(900)) for _ in range(20)])
        with pytest.raises(BatchTooLarge, match="raise buffer_bytes"):
            await producer.send_batches("orders", [finished(0, bytes(3000))])
    assert len(messages(broker)) == 20


async def test_the_failure_of_a_finished_batch_is_told_by_flush(
    broker: FakeBroker, mq: Client
) -> None:
    broker.create("orders", 1)
    broker.script[PRODUCE].append(BatchTooLarge("No."))
    producer = mq.producer()
    await producer.send_batches("orders", [finished(0, b"a", b"b")])
    with pytest.raises(DeliveryFailed, match="2 messages were not delivered"):
        await producer.flush()
