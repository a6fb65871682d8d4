"""Callbacks for partitions: what they may do, what they may not, and that nothing hangs by them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from penstock.client.client import Client
from penstock.client.concurrency.callbacks import check_outside_callbacks, is_in_callback, tell
from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.records import build_batch
from tests.kit.client.fake_broker import FakeBroker

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def orders(broker: FakeBroker) -> FakeBroker:
    """Two partitions of ten messages each."""
    broker.create("orders", 2)
    for partition in broker.topics["orders"]:
        partition.append(memoryview(build_batch([(None, b"%d" % each) for each in range(10)])))
    return broker


async def test_who_is_called_by_a_callback_knows() -> None:
    one, other = object(), object()
    seen: list[bool] = []
    later: list[asyncio.Task[None]] = []
    returned = asyncio.Event()

    async def look(*, waits: bool) -> None:
        if waits:
            await returned.wait()
        seen.append(is_in_callback(one))

    async def callback(partitions: list[TopicPartition]) -> None:
        assert partitions == [ONE]
        assert not is_in_callback(other)
        await tell(other, lambda _: seen.append(is_in_callback(one)), partitions)
        await asyncio.gather(look(waits=False))
        later.append(asyncio.ensure_future(look(waits=True)))
        with pytest.raises(InvalidRequest, match="when the callback has returned"):
            check_outside_callbacks(one)
        check_outside_callbacks(other)

    await tell(one, callback, [ONE])
    await tell(one, None, [ONE])
    check_outside_callbacks(one)
    returned.set()
    await asyncio.gather(*later)
    assert seen == [True, True, False]


async def test_what_one_raises_is_told_and_goes_no_further(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def callback(partitions: list[TopicPartition]) -> None:
        raise ValueError(f"of the user's own, for {len(partitions)}")

    await tell(object(), callback, [ONE])
    assert "of the user's own, for 1" in caplog.text


async def test_a_callback_may_seek_by_time(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-10: which starts a consumer, and this one is being started."""

    async def assigned(partitions: list[TopicPartition]) -> None:
        assert partitions == [ONE, TWO]
        await consumer.seek_to_time(datetime(1970, 1, 1, tzinfo=UTC))

    consumer = mq.subscribe("orders", group="billing", on_assigned=assigned)
    async with asyncio.timeout(5), consumer:
        assert (await consumer.fetch())[0].offset == 0


async def test_a_callback_cannot_close_or_assign(orders: FakeBroker, mq: Client) -> None:
    """It would wait for its own end, or cut itself off."""
    refused: list[str] = []

    async def revoked(partitions: list[TopicPartition]) -> None:
        del partitions
        for attempt in (consumer.close(), consumer.assign([ONE])):
            with pytest.raises(InvalidRequest) as refusal:
                await attempt
            refused.append(str(refusal.value))

    async with mq.subscribe("orders", group="billing", on_revoked=revoked) as consumer:
        [member_id] = orders.members["billing"]
        orders.assigned[member_id] = {"orders": [1]}
        await orders.until(lambda: consumer.partitions == [TWO])
        assert len(refused) == 2
        assert (await consumer.fetch())[0].partition == 1


async def test_what_a_callback_pauses_stays_paused(orders: FakeBroker, mq: Client) -> None:
    """And what it resumes while it is taken away is not read."""
    read: list[int] = []

    async def revoked(partitions: list[TopicPartition]) -> None:
        consumer.resume(*partitions)
        for _ in range(20):
            await asyncio.sleep(0)

    async def read_all() -> None:
        async for messages in consumer.batches():
            read.extend(message.partition for message in messages)

    consumer = mq.subscribe(
        "orders",
        group="billing",
        on_assigned=lambda partitions: consumer.pause(ONE),
        on_revoked=revoked,
    )
    async with consumer:
        reading = asyncio.ensure_future(read_all())
        await orders.until(lambda: len(read) == 10)
        [member_id] = orders.members["billing"]
        orders.assigned[member_id] = {"orders": [1]}
        await orders.until(lambda: consumer.partitions == [TWO])
        assert set(read) == {1}
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
