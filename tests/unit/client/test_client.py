"""Connecting, publishing one message, and leaving nothing behind."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.client.client import connect, parse_bootstrap
from penstock.client.errors import DeliveryFailed
from penstock.model.errors import (
    BatchTooLarge,
    ClientClosed,
    ConnectionLost,
    InvalidConfig,
    InvalidRequest,
)
from penstock.protocol import penstock_pb2 as pb
from tests.kit.client.fake_broker import FakeBroker


def test_addresses_come_in_a_list_or_with_commas() -> None:
    wanted = ["127.0.0.1:9092", "[::1]:9093"]
    assert [str(address) for address in parse_bootstrap("127.0.0.1, [::1]:9093")] == wanted
    assert [str(address) for address in parse_bootstrap(wanted)] == wanted
    for nothing in ("", " , "):
        with pytest.raises(InvalidConfig, match="No broker"):
            parse_bootstrap(nothing)
    with pytest.raises(InvalidConfig, match="No broker"):
        parse_bootstrap([])


async def test_the_short_way(broker: FakeBroker) -> None:
    """The example of the design: publish, subscribe, acknowledge."""
    async with connect(broker.address, client_name="shop") as mq:
        receipt = await mq.publish("orders", b"one book", key=b"alice")
        assert receipt.offset == 0
        async for message in mq.subscribe("orders", group="billing"):
            assert (message.key, message.value) == (b"alice", b"one book")
            await message.ack()
            break
    assert broker.offsets["billing"] == {("orders", receipt.partition): 1}


async def test_who_means_a_shared_group_is_told_of_share(broker: FakeBroker) -> None:
    """`serve` has `shared`; here it would be a TypeError about a class that nobody has heard of."""
    settings: dict[str, Any] = {"group": "workers", "shared": True}
    async with connect(broker.address) as mq:
        for read in (mq.subscribe, mq.consumer):
            with pytest.raises(InvalidConfig, match=r"whole partitions: mq\.share\("):
                read("jobs", **settings)


async def test_everything_ends_with_the_client(broker: FakeBroker) -> None:
    async with connect(broker.address) as mq:
        producer = mq.producer(linger_ms=10_000)
        await producer.send("orders", b"value")
        consumer = mq.subscribe("orders")
        waiting = asyncio.ensure_future(consumer.fetch())
        await broker.until(lambda: broker.count(pb.CALL_FETCH) == 1)
    assert broker.topics["orders"][0].end == 1, "the producer was flushed"
    with pytest.raises(ClientClosed):
        await waiting
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"value")
    for make in (mq.producer, mq.consumer, lambda: mq.admin):
        with pytest.raises(ClientClosed):
            make()
    await broker.until(lambda: all(channel.connection.is_closed for channel in broker.channels))
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others


async def test_a_failure_of_one_does_not_keep_the_others_open(broker: FakeBroker) -> None:
    mq = await connect(broker.address).__aenter__()
    broker.script[pb.CALL_PRODUCE].append(BatchTooLarge())
    producer = mq.producer(linger_ms=10_000)
    await producer.send("orders", b"value")
    async with mq.subscribe("orders") as consumer:
        await broker.until(lambda: broker.count(pb.CALL_FETCH) == 1)
        with pytest.raises(DeliveryFailed):
            await mq.__aexit__(None, None, None)
        with pytest.raises(ClientClosed):
            await consumer.fetch()
    await broker.until(lambda: all(channel.connection.is_closed for channel in broker.channels))


async def test_nobody_there() -> None:
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        await connect("127.0.0.1:1").__aenter__()


async def test_a_subscription_names_a_topic(broker: FakeBroker) -> None:
    async with connect(broker.address) as mq:
        with pytest.raises(InvalidRequest, match="at least one"):
            mq.subscribe()


async def test_too_many_topics_are_refused_before_any_is_made(broker: FakeBroker) -> None:
    """A hundred thousand subscriptions of one client."""
    topics = [f"t{number}" for number in range(100_000)]
    async with connect(broker.address) as mq:
        with pytest.raises(InvalidRequest, match="100000 topics"):
            mq.subscribe(*topics, group="g")
        with pytest.raises(InvalidRequest, match="100000 topics"):
            mq.share(*topics, group="g")
    assert not broker.topics


async def test_leaving_by_an_error_still_delivers(broker: FakeBroker) -> None:
    """As leaving a producer's own `async with` does; the error is the caller's."""
    mq = await connect(broker.address).__aenter__()
    await mq.producer(linger_ms=10_000).send("orders", b"value")
    await mq.__aexit__(LookupError, LookupError(), None)
    assert broker.topics["orders"][0].end == 1


async def test_a_client_may_be_entered_again_but_not_twice(broker: FakeBroker) -> None:
    mq = connect(broker.address)
    for offset in range(2):
        async with mq:
            assert (await mq.publish("orders", b"value")).offset == offset
            with pytest.raises(InvalidRequest, match="already"):
                await mq.__aenter__()
        with pytest.raises(ClientClosed, match="async with"):
            await mq.publish("orders", b"value")
