"""Delivery under every kind of failure: in order, once, or reported."""

from __future__ import annotations

import asyncio
import logging

import pytest

from penstock.client.client import Client, connect
from penstock.client.concurrency import hindrance
from penstock.client.errors import DeliveryFailed
from penstock.client.producing.producer import Producer
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    ClientClosed,
    CorruptBatch,
    DiskFull,
    InternalError,
    NotLeader,
    OutOfOrderSequence,
    PenstockError,
    ProducerFenced,
    StorageFailed,
    TimedOut,
    UnknownProducer,
    UnknownTopic,
)
from penstock.net.connection import Pause
from penstock.protocol import penstock_pb2 as pb
from penstock.records import decode_messages
from tests.kit.client.fake_broker import BREAK, DO, HOLD, LOSE_ANSWER, SWALLOW, Action, FakeBroker

PRODUCE = pb.CALL_PRODUCE


def written(broker: FakeBroker, topic: str = "orders", partition: int = 0) -> list[bytes]:
    """The values in a partition's log, in order."""
    log = broker.topics[topic][partition].batches
    return [
        message.value or b""
        for _, batch in log
        for message in decode_messages(batch, topic, partition, 0)
    ]


async def send_batches(producer: Producer, count: int, first: int = 0) -> list[bytes]:
    """Send messages that fill a batch each, so that they are in flight together."""
    values = [b"%d " % number + b"x" * 1000 for number in range(first, first + count)]
    for value in values:
        await producer.send("orders", value)
    return values


def small(mq: Client, **settings: object) -> Producer:
    """A producer whose batches hold one message of `send_batches`."""
    return mq.producer(batch_bytes=1024, linger_ms=0, **settings)  # type: ignore[arg-type]


RETRIED = [
    NotLeader(),
    Busy(),
    TimedOut(),
    CorruptBatch(),
    BREAK,
    LOSE_ANSWER,
    UnknownTopic(),
]


@pytest.mark.parametrize("action", RETRIED, ids=str)
@pytest.mark.parametrize("place", range(5))
async def test_a_failure_anywhere_in_the_window_neither_loses_nor_repeats(
    broker: FakeBroker, mq: Client, action: Action, place: int
) -> None:
    """R-PRO-2: five batches in flight, one of them hit; the log has each once and in order."""
    async with small(mq) as producer:
        await producer.publish("orders", b"first")
        broker.script[PRODUCE].extend([DO] * place + [action])
        values = await send_batches(producer, 12)
        await producer.flush()
    assert written(broker) == [b"first", *values]


@pytest.mark.parametrize("acks", ["all", 1])
async def test_at_least_once_without_idempotence_keeps_the_order(
    broker: FakeBroker, mq: Client, acks: str
) -> None:
    """R-PRO-1: a lost answer repeats the batch it was for, and nothing overtakes."""
    async with small(mq, acks=acks, idempotent=False) as producer:
        broker.script[PRODUCE].extend([DO, LOSE_ANSWER, Busy()])
        values = await send_batches(producer, 5)
        await producer.flush()
    assert written(broker) == [values[0], values[1], *values[1:]]
    assert broker.count(pb.CALL_INIT_PRODUCER) == 0


async def test_at_most_five_batches_are_in_flight(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].extend([HOLD] * 5)
    async with small(mq) as producer:
        values = await send_batches(producer, 8)
        await broker.until(lambda: len(broker.held) == 5)
        for _ in range(20):
            await asyncio.sleep(0)
        assert broker.count(PRODUCE) == 5
        broker.release()
        await producer.flush()
    assert written(broker) == values


async def test_a_busy_window_makes_larger_batches(broker: FakeBroker, mq: Client) -> None:
    """What comes while the window is full waits in one open batch instead of many small ones."""
    broker.script[PRODUCE].extend([HOLD] * 5)
    async with mq.producer(linger_ms=0) as producer:
        for number in range(5):
            await producer.send("orders", b"%d" % number)
            await broker.until(lambda n=number: len(broker.held) == n + 1)  # type: ignore[misc]
        for number in range(5, 50):
            await producer.send("orders", b"%d" % number)
            await asyncio.sleep(0)
        broker.release()
        await producer.flush()
    assert broker.count(PRODUCE) == 6
    assert written(broker) == [b"%d" % number for number in range(50)]


async def test_a_refused_batch_fails_alone(broker: FakeBroker, mq: Client) -> None:
    """The others, whose numbers now follow a gap, go on under a new producer id."""
    async with small(mq) as producer:
        await producer.publish("orders", b"first")
        broker.script[PRODUCE].append(BatchTooLarge("Too large for the topic."))
        values = await send_batches(producer, 5)
        with pytest.raises(DeliveryFailed, match="Too large") as failed:
            await producer.flush()
        values += await send_batches(producer, 5, first=5)
        await producer.flush()
    (failure,) = failed.value.failures
    assert (failure.topic, failure.partition, failure.message_count) == ("orders", 0, 1)
    assert written(broker) == [b"first", *values[1:]]
    assert broker.count(pb.CALL_INIT_PRODUCER) == 2


async def test_a_forgotten_producer_begins_again(broker: FakeBroker, mq: Client) -> None:
    async with small(mq) as producer:
        values = await send_batches(producer, 3)
        await producer.flush()
        broker.topics["orders"][0].producers = type(broker.topics["orders"][0].producers)()
        values += await send_batches(producer, 3, first=3)
        await producer.flush()
    assert written(broker) == values


@pytest.mark.parametrize("error", [OutOfOrderSequence(), UnknownProducer()], ids=repr)
async def test_what_may_be_written_is_not_sent_under_another_id(
    broker: FakeBroker, mq: Client, error: PenstockError
) -> None:
    """R-PRO-2: a lost answer, then a broker that forgot: it fails rather than being doubled."""
    async with small(mq) as producer:
        await producer.publish("orders", b"first")
        broker.script[PRODUCE].extend([LOSE_ANSWER, error])
        await send_batches(producer, 1)
        with pytest.raises(DeliveryFailed, match="Nobody can tell"):
            await producer.flush()
        assert len(written(broker)) == 2
        await producer.publish("orders", b"later")
    assert written(broker)[2:] == [b"later"]


@pytest.mark.parametrize(
    "error", [StorageFailed("Disk."), InternalError("Bug."), ProducerFenced("Fenced.")], ids=repr
)
async def test_what_cannot_be_mended_is_told_at_once(
    broker: FakeBroker, mq: Client, error: PenstockError
) -> None:
    broker.script[PRODUCE].append(error)
    with pytest.raises(type(error), match=str(error)):
        await mq.publish("orders", b"value")
    assert broker.count(PRODUCE) == 1


async def test_delivery_ends_with_its_timeout(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].extend([Busy("Very busy.")] * 10_000)
    async with mq.producer(linger_ms=0, delivery_timeout_ms=200) as producer:
        with pytest.raises(TimedOut, match=r"was not written.*Very busy"):
            await producer.publish("orders", b"value")
        await producer.flush()  # a failure that was told once is not told again
        await producer.send("orders", b"value")
        with pytest.raises(DeliveryFailed, match="1 message"):
            await producer.flush()
    broker.script[PRODUCE].clear()
    async with mq.producer(linger_ms=0) as producer:
        await producer.publish("orders", b"again")
    assert written(broker) == [b"again"]


async def test_a_disk_without_room_is_named_once_while_it_is_waited_for(
    broker: FakeBroker,
    mq: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its user would see nothing for two minutes."""
    monkeypatch.setattr(hindrance, "TELL_AFTER_S", 0.0)
    full = DiskFull("Broker 1 has no room for orders-0: The disk is full.")
    broker.script[PRODUCE].extend([full] * 3)
    async with mq.producer(linger_ms=0) as producer:
        await producer.publish("orders", b"value")
    told = [each.getMessage() for each in caplog.records if each.name.endswith("sender")]
    assert told == [
        "orders-0 cannot be written, and is tried again for 120 s: Broker 1 has no room for "
        "orders-0: The disk is full.",
        "orders-0 can be written again",
    ]
    broker.script[PRODUCE].extend([full] * 10_000)
    async with mq.producer(linger_ms=0, delivery_timeout_ms=20) as producer:
        with pytest.raises(TimedOut, match=r"it was not written\. .* no room for orders-0"):
            await producer.publish("orders", b"value")


async def test_a_short_failure_is_nobody_s_concern(
    broker: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    broker.script[PRODUCE].extend([NotLeader()] * 2)
    await mq.publish("orders", b"value")
    assert not [each for each in caplog.records if each.name.endswith("sender")]


async def test_a_short_failure_long_after_what_expired_is_nobody_s_concern(
    broker: FakeBroker,
    mq: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A lane with nothing left is not failing, however its last messages ended."""
    loop = asyncio.get_running_loop()
    later_s, time_s = 0.0, loop.time
    monkeypatch.setattr(loop, "time", lambda: time_s() + later_s)
    broker.script[PRODUCE].extend([Busy("Very busy.")] * 10_000)
    async with mq.producer(linger_ms=0, delivery_timeout_ms=60_000) as producer:
        publishing = asyncio.create_task(producer.publish("orders", b"value"))
        await broker.until(lambda: broker.count(PRODUCE) > 2)
        later_s = 61.0
        with pytest.raises(TimedOut):
            await publishing
        later_s = 100.0
        broker.script[PRODUCE].clear()
        broker.script[PRODUCE].extend([Busy("A little busy.")] * 2)
        await producer.publish("orders", b"again")
    assert not [each for each in caplog.records if each.name.endswith("sender")]


async def test_silence_is_answered_by_a_retry(broker: FakeBroker, mq: Client) -> None:
    """R-PRO-2: no answer in time: sent again, with the same numbers."""
    broker.script[PRODUCE].append(SWALLOW)
    async with mq.producer(linger_ms=0, request_timeout_ms=10) as producer:
        receipt = await producer.publish("orders", b"value")
    assert receipt.offset == 0
    assert broker.count(PRODUCE) == 2


async def test_a_retry_that_was_written_is_called_a_duplicate(
    broker: FakeBroker, mq: Client
) -> None:
    """R-PRO-2: the receipt has the offset of the first time."""
    broker.script[PRODUCE].append(LOSE_ANSWER)
    receipt = await mq.publish("orders", b"value")
    assert (receipt.offset, receipt.duplicate) == (0, True)
    assert written(broker) == [b"value"]


async def test_a_broker_that_restarts_is_found_again(broker: FakeBroker, mq: Client) -> None:
    async with small(mq) as producer:
        values = await send_batches(producer, 3)
        await producer.flush()
        await broker.stop()
        values += await send_batches(producer, 3, first=3)
        await broker.start()
        await producer.flush()
    assert written(broker) == values


async def test_nothing_overtakes_what_a_closing_connection_loses(
    broker: FakeBroker, mq: Client
) -> None:
    """A batch that is sealed between the end of a connection and the news of it waits its turn."""
    async with small(mq) as producer:
        await producer.publish("orders", b"first")
        broker.script[PRODUCE].extend([HOLD] * 2)
        values = await send_batches(producer, 3)
        await broker.until(lambda: len(broker.held) == 2)
        (lane,) = producer.accumulator.lanes()
        assert lane.channel is not None
        lane.channel.connection.abort()
        values += await send_batches(producer, 3, first=3)
        await producer.flush()
    assert written(broker) == [b"first", *values]


async def test_a_moved_leader_is_followed(broker: FakeBroker, mq: Client) -> None:
    """R-CORE-5: "not leader" refreshes the route at once."""
    async with FakeBroker(broker_id=1) as other, small(mq) as producer:
        values = await send_batches(producer, 2)
        await producer.flush()
        broker.peers[1] = other.address
        other.topics = broker.topics
        broker.leaders["orders", 0] = 1
        broker.script[PRODUCE].append(NotLeader())
        values += await send_batches(producer, 2, first=2)
        await producer.flush()
        assert other.count(PRODUCE) == 2
    assert written(broker) == values


async def test_a_topic_without_creation_fails_all_that_wait(broker: FakeBroker, mq: Client) -> None:
    broker.create("orders", 1)
    async with small(mq) as producer:
        await producer.publish("orders", b"value")
        del broker.topics["orders"]
        broker.creates_topics = False
        await send_batches(producer, 3)
        with pytest.raises(DeliveryFailed, match="no topic orders"):
            await producer.flush()


async def test_acks_0_is_not_answered_and_errors_are_kept(
    broker: FakeBroker, mq: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """R-PRO-1: acks 0 is sent and forgotten; an error that comes back is shown."""
    caplog.set_level(logging.WARNING)
    async with mq.producer(acks=0, linger_ms=0) as producer:
        receipt = await producer.publish("orders", b"value")
        assert receipt.offset == -1
        await broker.until(lambda: broker.count(PRODUCE) == 1)
        broker.script[PRODUCE].append(BatchTooLarge("Too large."))
        await producer.publish("orders", b"refused")
        await broker.until(lambda: bool(producer.errors))
    assert [str(error) for error in producer.errors] == ["Too large."]
    assert "Too large." in caplog.text
    assert written(broker) == [b"value"]


async def test_acks_0_waits_for_the_socket(broker: FakeBroker, mq: Client) -> None:
    """A broker that does not read slows the producer down instead of filling its memory."""
    value = b"x" * 1_000_000
    async with mq.producer(acks=0, linger_ms=0, buffer_bytes=4_000_000) as producer:
        await producer.publish("orders", b"first")
        (channel,) = broker.channels
        channel.connection.pause_reading(Pause.DRAINING)

        async def send_much() -> None:
            for _ in range(60):
                await producer.send("orders", value)

        sending = asyncio.ensure_future(send_much())
        for _ in range(200):
            await asyncio.sleep(0)
        assert not sending.done()
        channel.connection.resume_reading(Pause.DRAINING)
        await sending
        await producer.flush()
        await broker.until(lambda: broker.count(PRODUCE) == 61)


async def test_aborting_fails_what_is_under_way(broker: FakeBroker, mq: Client) -> None:
    broker.script[PRODUCE].append(HOLD)
    producer = mq.producer(linger_ms=0)
    future = await producer.submit("orders", b"value")
    await broker.until(lambda: bool(broker.held))
    await producer.abort()
    with pytest.raises(ClientClosed):
        await future
    broker.release()


async def test_numbers_begin_again_after_the_last(broker: FakeBroker, mq: Client) -> None:
    """After sequence 2147483647 comes 0, as in Kafka."""
    async with small(mq) as producer:
        values = await send_batches(producer, 1)
        await producer.flush()
        (lane,) = producer.accumulator.lanes()
        lane.next_sequence = 2**31 - 1
        partition = broker.topics["orders"][0]
        state = type(partition.producers)()
        header = partition.batches[0][0]
        state.record(header._replace(base_sequence=2**31 - 2), 0, 0)
        partition.producers = state
        values += await send_batches(producer, 3, first=1)
        await producer.flush()
        assert lane.next_sequence == 2
    assert written(broker) == values
    assert broker.count(pb.CALL_INIT_PRODUCER) == 1


async def test_nobody_there_is_said_plainly() -> None:
    with pytest.raises(PenstockError, match="No broker can be reached"):
        async with connect("127.0.0.1:1"):
            pass


async def test_a_broker_that_hangs_does_not_keep_a_message_beyond_its_time(
    broker: FakeBroker, mq: Client
) -> None:
    """The delivery timeout holds also where it is shorter than that of a request."""
    broker.script[PRODUCE].extend([DO, SWALLOW, SWALLOW])
    async with small(mq, delivery_timeout_ms=20, request_timeout_ms=30_000) as producer:
        await producer.publish("orders", b"first")
        async with asyncio.timeout(5):
            with pytest.raises(TimedOut, match="may or may not"):
                await producer.publish("orders", b"second")
