"""Push streams through the protocol: credit, window, ends, hostile answers (R-DEL-6, R-DEL-8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker import broker as broker_module
from penstock.broker.context import Context
from penstock.broker.delivery.push import streams as pushes
from penstock.broker.delivery.push.stream import PushStream
from penstock.model.errors import (
    Busy,
    InvalidCredit,
    InvalidFilter,
    InvalidRequest,
    OffsetOutOfRange,
    TooManySubscriptions,
    UnknownStream,
    UnknownTopic,
)
from penstock.model.limits import PUSH_LOADS_PER_TURN_MAX, PUSH_WINDOW_DELIVERIES
from penstock.net.connection import Pause
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.frame import ANSWER_BIT, encode_head
from tests.kit.broker.push_client import pushed, settled, until
from tests.kit.broker.running import batch, running


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The insides of the brokers that the test starts."""
    found: list[Context] = []

    def make(**parts: Any) -> Context:
        found.append(Context(**parts))
        return found[-1]

    monkeypatch.setattr(broker_module, "Context", make)
    return found


async def test_what_is_there_and_what_comes_is_pushed() -> None:
    """R-DEL-6: the broker calls the consumer on its own connection."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a", b"b"]))
        await client.open()
        await until(lambda: client.values == [b"a", b"b"])
        await producer.produce("orders", batch([b"c"]))
        await until(lambda: client.values == [b"a", b"b", b"c"])
        last = client.deliveries[-1].request
        assert (last.stream, last.delivery, last.next_offset) == (1, 2, 3)
        assert (last.high_watermark, last.messages, last.has_gaps) == (3, 1, False)


async def test_a_stream_begins_at_its_offset() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for value in (b"a", b"b", b"c"):
            await producer.produce("orders", batch([value]))
        await client.open(offset=1)
        await until(lambda: client.values == [b"b", b"c"])


async def test_credit_bounds_what_is_pushed() -> None:
    """R-DEL-6: a slow consumer is never overrun."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for number in range(20):
            await producer.produce("orders", batch([b"%d" % number]))
        await client.open(messages=5)
        await until(lambda: len(client.values) == 5)
        await settled(client)
        assert len(client.values) == 5
        await client.give(7, 1)
        await until(lambda: len(client.values) == 12)
        await settled(client)
        assert client.values == [b"%d" % number for number in range(12)]


async def test_a_batch_larger_than_the_credit_comes_alone() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for _ in range(2):
            await producer.produce("orders", batch([b"x" * 1000] * 10))
        await client.open(messages=3, size_bytes=100)
        await until(lambda: len(client.deliveries) == 1)
        await settled(client)
        assert [delivery.request.messages for delivery in client.deliveries] == [10]
        # The debt is paid first.
        await client.give(7, 20_000)
        await settled(client)
        assert len(client.deliveries) == 1
        await client.give(1, 1)
        await until(lambda: len(client.deliveries) == 2)


async def test_the_window_bounds_what_is_not_answered() -> None:
    """R-DEL-6"""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        client.is_silent = True
        await client.open(messages=10_000)
        for number in range(PUSH_WINDOW_DELIVERIES + 5):
            await producer.produce("orders", batch([b"%d" % number]))
        await until(lambda: len(client.deliveries) == PUSH_WINDOW_DELIVERIES)
        await settled(client)
        assert client.numbers == list(range(1, PUSH_WINDOW_DELIVERIES + 1))
        first = client.deliveries[0].message_id
        client.channel.connection.send(encode_head(pb.CALL_DELIVER | ANSWER_BIT, first, b""))
        await until(lambda: len(client.deliveries) == PUSH_WINDOW_DELIVERIES + 1)
        assert len(client.deliveries[-1].values) == 5


async def test_a_push_without_an_answer_is_tried_again_and_then_parked_until_a_resume() -> None:
    """R-DEL-8"""
    async with (
        running(push_timeout_ms=5, push_retry_ms=5) as (broker, producer),
        pushed(broker) as client,
    ):
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))
        await client.hello("sleeper")
        client.is_silent = True
        await client.open()
        await until(lambda: bool(client.endings))
        assert client.numbers == [1, 1]
        assert client.deliveries[0].values == client.deliveries[1].values == [b"a"]
        ended = client.endings[0]
        assert (ended.stream, ended.is_parked, ended.by_operator) == (1, True, False)
        await producer.produce("orders", batch([b"b"]))
        await settled(client)
        assert client.numbers == [1, 1]
        [record] = await client.clients()
        [stream] = record.streams
        assert (record.state, stream.state, stream.timeouts) == ("parked", "parked", 1)
        assert stream.reason == "The client left a delivery unanswered twice."
        assert stream.parked_at_ms > 0
        client.is_silent = False
        await client.resume(is_automatic=True)
        await until(lambda: client.numbers == [1, 1, 1, 2])
        assert client.values == [b"a", b"b"]
        [record] = await client.clients()
        assert record.state == "alive"


async def test_a_late_answer_counts() -> None:
    async with (
        running(push_timeout_ms=5, push_retry_ms=5) as (broker, producer),
        pushed(broker) as client,
    ):
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))
        await client.hello()
        client.is_silent = True
        await client.open()
        await until(lambda: bool(client.endings))
        for message_id in (client.deliveries[0].message_id, 999, 1000):
            answer = encode_head(pb.CALL_DELIVER | ANSWER_BIT, message_id, b"")
            client.channel.connection.send(answer, answer)
        await settled(client)
        client.is_silent = False
        await client.resume()
        await producer.produce("orders", batch([b"b"]))
        await until(lambda: client.numbers == [1, 1, 2])


async def test_what_a_client_refuses_is_tried_again() -> None:
    async with running(push_retry_ms=1) as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))
        client.refuses_with = Busy("Not now.")
        await client.open()
        await until(lambda: len(client.deliveries) >= 1)
        client.refuses_with = None
        await until(lambda: client.numbers == [1, 1])


async def test_a_client_that_knows_the_stream_no_more_ends_it() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await producer.produce("orders", batch([b"a"]))
        client.refuses_with = UnknownStream("Which?")
        await client.open()
        await until(lambda: len(client.deliveries) == 1)
        await settled(client)
        with pytest.raises(UnknownStream, match="There is no stream 1 on this connection"):
            await client.give(1, 1)
        assert not client.endings


@pytest.mark.parametrize(("messages", "size"), [(-1, 10), (10, -(2**63)), (0, 0), (2**63 - 1, 1)])
async def test_credit_that_makes_no_sense_is_refused(messages: int, size: int) -> None:
    """R-DEL-6: and nothing changes."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await client.open()
        with pytest.raises(InvalidCredit):
            await client.give(messages, size)
        await producer.produce("orders", batch([b"a"]))
        await until(lambda: client.values == [b"a"])


async def test_opening_without_credit_or_with_too_much_is_refused() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for messages, size in ((0, 0), (2**32 - 1, 1)):
            with pytest.raises(InvalidCredit):
                await client.open(messages=messages, size_bytes=size)
        await client.open()


async def test_what_cannot_be_opened_is_refused_with_the_reason() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        with pytest.raises(UnknownTopic):
            await client.open("nothing")
        await producer.create("orders")
        with pytest.raises(UnknownTopic):
            await client.open(partition=7)
        for offset in (-1, 1):
            with pytest.raises(OffsetOutOfRange, match="the partition has 0 to 0"):
                await client.open(offset=offset)
        with pytest.raises(InvalidRequest, match="too long"):
            await client.open(group="g" * 1000)
        with pytest.raises(InvalidFilter, match="at character 8"):
            await client.open(wanted=pb.Filter(expression="price >"))
        await client.open()
        with pytest.raises(InvalidRequest, match="Stream 1 is open already"):
            await client.open()


async def test_a_connection_has_a_limit_of_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-7: the next one is refused, and those that are there go on."""
    monkeypatch.setattr(pushes, "PUSH_STREAMS_PER_CONNECTION_MAX", 3)
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for stream in range(3):
            await client.open(stream=stream)
        with pytest.raises(TooManySubscriptions, match="3 is the limit of a connection"):
            await client.open(stream=3)
        await client.close_stream(0)
        await client.open(stream=3)
        monkeypatch.setattr(pushes, "PUSH_STREAMS_MAX", 3)
        async with pushed(broker) as other:
            with pytest.raises(TooManySubscriptions, match="limit of all clients together"):
                await other.open()


async def test_a_closed_stream_is_silent() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await client.open()
        await client.close_stream()
        await producer.produce("orders", batch([b"a"]))
        await settled(client)
        assert not client.deliveries
        assert not client.endings
        for ask in (client.close_stream, client.resume):
            with pytest.raises(UnknownStream):
                await ask()
        assert client.channel.pending_calls == 0


async def test_streams_end_with_their_topic() -> None:
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        await client.open()
        await producer.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        await until(lambda: bool(client.endings))
        [ended] = client.endings
        assert not ended.is_parked
        assert ended.error.code == UnknownTopic.code
        with pytest.raises(UnknownStream):
            await client.give(1, 1)


async def test_retention_ends_a_stream_that_was_behind_it(contexts: list[Context]) -> None:
    """So that the client decides where it goes on."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for _ in range(3):
            await producer.produce("orders", batch([b"a"]))
        await client.open(messages=1)
        await until(lambda: len(client.deliveries) == 1)
        partition = contexts[0].partitions.find("orders", 0)
        gone = asyncio.get_running_loop().create_future()
        partition.replica.delete_before(2, gone.set_result)
        await gone
        await client.give(10, 10)
        await until(lambda: bool(client.endings))
        assert client.endings[0].error.code == OffsetOutOfRange.code


async def test_streams_end_with_their_connection(contexts: list[Context]) -> None:
    """R-DEL-7: a lost client is removed from all it had."""
    async with running() as (broker, producer), pushed(broker) as watcher:
        await producer.create("orders")
        async with pushed(broker) as client:
            await client.hello("gone")
            await client.open()
            client.channel.connection.abort()
        async with asyncio.timeout(10):
            while not (records := await watcher.clients()):
                pass
        assert [(record.name, record.state) for record in records] == [("gone", "lost")]
        assert not records[0].streams
        assert not contexts[0].delivery.pushes._connections
        assert contexts[0].delivery.pushes._stream_count == 0
        assert not contexts[0].partitions.find("orders", 0).readers.count


async def test_many_streams_share_a_connection_fairly() -> None:
    """One delivery each in turn, however much one partition has."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders", 3)
        for partition, count in ((0, 18), (1, 3), (2, 3)):
            for _ in range(count):
                await producer.produce("orders", batch([b"x" * 300_000]), partition=partition)
        # Sent in one turn, so that all are there before the first delivery.
        opening = [
            client.open(stream=number, partition=number, messages=1000, size_bytes=1 << 26)
            for number in range(3)
        ]
        await asyncio.gather(*opening)
        await until(lambda: len(client.values) == 24)
        order = [delivery.request.stream for delivery in client.deliveries]
        # Three batches make a delivery, and the first stream had a start.
        assert sorted(order) == [0] * 6 + [1, 2]
        assert max(order.index(1), order.index(2)) < 6


async def test_nothing_is_pushed_to_a_client_that_does_not_read(contexts: list[Context]) -> None:
    """R-DEL-6: whatever credit it gave, little is unsent; the rest comes when it reads on."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for _ in range(20):
            await producer.produce("orders", batch([b"x" * 1_000_000]))
        connection = client.channel.connection
        await client.open(messages=1000, size_bytes=1 << 30)
        connection.pause_reading(Pause.DRAINING)
        [session] = contexts[0].delivery.pushes._connections
        outbox = session.channel.connection.outbox
        await until(lambda: outbox.unsent_bytes > 0)
        for _ in range(200):
            await producer.channel.call(calls.PING, pb.PingRequest())
            assert outbox.unsent_bytes < 3_000_000
        connection.resume_reading(Pause.DRAINING)
        await until(lambda: sum(each.request.messages for each in client.deliveries) == 20)


async def test_a_batch_that_wakes_many_streams_does_not_hold_the_loop(
    contexts: list[Context],
) -> None:
    """They take their turns a few at a time, so that others have theirs."""
    async with running() as (broker, producer), pushed(broker) as client:
        await producer.create("orders")
        for number in range(300):
            await client.open(stream=number)
        [connection] = contexts[0].delivery.pushes._connections.values()
        most = 0
        take_turn = PushStream.take_turn
        taken = 0

        def count(stream: PushStream) -> None:
            nonlocal taken
            taken += 1
            take_turn(stream)

        def look() -> None:
            nonlocal taken, most
            most = max(most, taken)
            taken = 0
            if len(client.deliveries) < 300:
                asyncio.get_running_loop().call_soon(look)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PushStream, "take_turn", count)
            look()
            await producer.produce("orders", batch([b"a"]))
            await until(lambda: len(client.deliveries) == 300)
        assert 0 < most <= 2 * PUSH_LOADS_PER_TURN_MAX
        await until(lambda: not connection._waiting)
