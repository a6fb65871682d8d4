"""Messages with a time to live, as a consumer with its own partitions reads them."""

from __future__ import annotations

import asyncio
from time import time_ns

import pytest

import penstock.testing
from penstock.client.blocking.client import connect_blocking
from penstock.client.client import Client
from penstock.client.consuming import reader
from penstock.model.message_headers import EXPIRES_MS
from penstock.records import BatchBuilder, Codec
from tests.kit.client.fake_broker import FakeBroker

START_MS = 1_700_000_000_000


class Clock:
    """What the reader takes for the time."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(reader, "_now_ms", made)
    return made


def fill(broker: FakeBroker, lives_ms: list[int | None], codec: Codec = Codec.NONE) -> None:
    """A batch of messages that live for so long."""
    builder = BatchBuilder(1 << 20, codec)
    for life_ms in lives_ms:
        headers = [] if life_ms is None else [(EXPIRES_MS, b"%d" % (START_MS + life_ms))]
        builder.append(START_MS, None, b"x" * 100, headers)
    broker.topics["orders"][0].append(memoryview(builder.build()))
    broker.notify()


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
async def test_expired_messages_are_skipped_counted_and_acknowledged(
    broker: FakeBroker, mq: Client, clock: Clock, codec: Codec
) -> None:
    """Per-message TTL: not delivered, counted; the group goes on behind them."""
    broker.create("orders", 1)
    fill(broker, [None, 0, 5, -1], codec)
    async with mq.consumer(group="g") as consumer:
        await consumer.assign([("orders", 0)])
        messages = await consumer.fetch()
        assert [message.offset for message in messages] == [0, 2]
        assert consumer.expired_count == 2
        for message in messages:
            await message.ack()
        await consumer.commit()
        assert await consumer.committed(("orders", 0)) == 4


async def test_a_group_moves_past_messages_that_have_all_expired(
    broker: FakeBroker, mq: Client, clock: Clock
) -> None:
    broker.create("orders", 1)
    fill(broker, [0, 0, 0])
    async with mq.consumer(group="g") as consumer:
        await consumer.assign([("orders", 0)])
        assert await consumer.fetch(timeout_s=0.05) == []
        assert consumer.expired_count == 3
        async with asyncio.timeout(5):
            while await consumer.committed(("orders", 0)) != 3:
                await asyncio.sleep(0.01)


async def test_messages_that_expire_while_the_reader_is_slow_are_left_out(
    broker: FakeBroker, mq: Client, clock: Clock
) -> None:
    broker.create("orders", 1)
    fill(broker, [5, 10, None, 10, 20])
    async with mq.consumer(group="g") as consumer:
        await consumer.assign([("orders", 0)])
        seen = []
        async for message in consumer:
            seen.append(message.offset)
            await message.ack()
            if message.offset == 4:
                break
            clock.now_ms = START_MS + 10
        assert seen == [0, 2, 4]
        assert consumer.expired_count == 2
        assert consumer.position(("orders", 0)) == 5
        await consumer.commit()
        assert await consumer.committed(("orders", 0)) == 5


async def test_a_hand_that_has_wholly_expired_is_spent(
    broker: FakeBroker, mq: Client, clock: Clock
) -> None:
    broker.create("orders", 1)
    fill(broker, [5, 5, 5, 5])
    fill(broker, [None, 20, 10, 20])
    async with mq.subscribe("orders") as consumer:
        assert [message.offset for message in await consumer.fetch(2)] == [0, 1]
        clock.now_ms = START_MS + 5
        assert [message.offset for message in await consumer.fetch(2)] == [4, 5]
        assert consumer.position(("orders", 0)) == 6
        clock.now_ms = START_MS + 10
        assert [message.offset for message in await consumer.fetch()] == [7]
        assert consumer.position(("orders", 0)) == 8
        assert consumer.expired_count == 3


async def test_columns_have_expired_messages_too(
    broker: FakeBroker, mq: Client, clock: Clock
) -> None:
    broker.create("orders", 1)
    fill(broker, [0, None])
    async with mq.subscribe("orders") as consumer:
        [fetched] = await consumer.fetch_columns()
        assert fetched.columns.record_count == 2
        assert consumer.expired_count == 0


def test_expired_messages_without_an_event_loop() -> None:
    with penstock.testing.broker() as address, connect_blocking(address) as mq:
        past = b"%d" % (time_ns() // 1_000_000 - 1)
        mq.publish("orders", b"old", headers=[(EXPIRES_MS, past)], partition=0)
        mq.publish("orders", b"new", ttl_s=60, partition=0)
        consumer = mq.subscribe("orders", group="g")
        for message in consumer:
            assert message.value == b"new"
            message.ack()
            break
        assert consumer.expired_count == 1
        consumer.commit()
        assert consumer.committed(("orders", 0)) == 2
