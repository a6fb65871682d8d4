"""A group's place: acknowledged, committed in few calls, found again."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.consuming import committer
from penstock.model.errors import (
    Busy,
    ClientClosed,
    InvalidRequest,
    StaleMemberEpoch,
    StorageFailed,
)
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch
from tests.kit.client.fake_broker import HOLD, FakeBroker

COMMIT = pb.CALL_COMMIT_OFFSETS
ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def orders(broker: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    monkeypatch.setattr(committer, "COMMIT_INTERVAL_S", 0.0)
    broker.create("orders", 1)
    records = [(None, b"%d" % number) for number in range(100)]
    broker.topics["orders"][0].append(memoryview(build_batch(records)))
    return broker


async def test_a_group_goes_on_where_it_was(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-10: offsets are kept per group and partition by the broker."""
    async with mq.subscribe("orders", group="billing") as consumer:
        for message in await consumer.fetch(max_messages=40):
            await message.ack()
    assert orders.offsets["billing"] == {ORDERS: 40}
    async with mq.subscribe("orders", group="billing", start="latest") as consumer:
        assert consumer.position(ORDERS) == 40
        assert await consumer.committed(ORDERS) == 40
        assert await consumer.committed(("orders", 1)) is None
    async with mq.subscribe("orders", group="other") as consumer:
        assert consumer.position(ORDERS) == 0


async def test_acknowledgements_are_committed_together(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        for message in await consumer.fetch():
            await message.ack()
        await orders.until(lambda: orders.offsets["billing"].get(ORDERS) == 100)
    assert orders.count(COMMIT) == 1


async def test_only_what_is_acknowledged_is_committed(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        messages = await consumer.fetch()
        for message in reversed(messages[10:]):
            await message.ack()
    assert orders.count(COMMIT) == 0
    async with mq.subscribe("orders", group="billing") as consumer:
        messages = await consumer.fetch()
        for message in reversed(messages[:10]):
            await message.ack()
    assert orders.offsets["billing"] == {ORDERS: 10}


async def test_commit_covers_all_that_was_handed_out(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        await consumer.fetch(max_messages=30)
        await consumer.commit()
        assert orders.offsets["billing"] == {ORDERS: 30}
        await consumer.commit({("orders", 0): 5})
        assert orders.offsets["billing"] == {ORDERS: 5}


async def test_seeking_moves_the_place_with_it(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        await consumer.fetch(max_messages=30)
        await consumer.commit()
        await consumer.seek(ORDERS, 10)
        (message,) = await consumer.fetch(max_messages=1)
        await message.ack()
    assert orders.offsets["billing"] == {ORDERS: 11}


async def test_a_busy_broker_is_asked_again(orders: FakeBroker, mq: Client) -> None:
    orders.script[COMMIT].extend([Busy()] * 3)
    async with mq.subscribe("orders", group="billing") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        await message.ack()
        await orders.until(lambda: orders.offsets["billing"].get(ORDERS) == 1)


async def test_what_is_acknowledged_during_a_commit_is_committed_after_it(
    orders: FakeBroker, mq: Client
) -> None:
    orders.script[COMMIT].append(HOLD)
    async with mq.subscribe("orders", group="billing") as consumer:
        first, second = await consumer.fetch(max_messages=2)
        await first.ack()
        await orders.until(lambda: bool(orders.held))
        await second.ack()
        orders.release()
    assert orders.offsets["billing"] == {ORDERS: 2}


async def test_a_commit_in_an_epoch_that_is_over_is_made_again(
    orders: FakeBroker, mq: Client
) -> None:
    orders.script[COMMIT].append(StaleMemberEpoch())
    async with asyncio.timeout(10), mq.subscribe("orders", group="billing") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        await message.ack()
        await consumer.commit()
    assert orders.offsets["billing"] == {ORDERS: 1}


async def test_a_refused_commit_is_told_by_the_next_acknowledgement(
    orders: FakeBroker, mq: Client
) -> None:
    orders.script[COMMIT].append(StorageFailed("No disk."))
    async with mq.subscribe("orders", group="billing") as consumer:
        first, second = await consumer.fetch(max_messages=2)
        await first.ack()
        await orders.until(lambda: orders.count(COMMIT) == 1)
        for _ in range(10):
            await asyncio.sleep(0)
        with pytest.raises(StorageFailed, match="No disk"):
            await second.ack()
        await second.ack()
    assert orders.offsets["billing"] == {ORDERS: 2}


async def test_without_a_group_there_is_nothing_to_acknowledge(
    orders: FakeBroker, mq: Client
) -> None:
    async with mq.subscribe("orders") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
        with pytest.raises(InvalidRequest, match="group="):
            await message.ack()
        with pytest.raises(InvalidRequest, match="group="):
            await consumer.commit()


async def test_a_partition_taken_away_keeps_its_place(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        first, second = await consumer.fetch(max_messages=2)
        await first.ack()
        await consumer.assign([])
        await second.ack()
    assert orders.offsets["billing"] == {ORDERS: 1}


async def test_closing_does_not_wait_long_for_a_broker_that_is_gone(
    orders: FakeBroker,
    mq: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It says what was not committed, so that nobody wonders why messages come again."""
    monkeypatch.setattr(committer, "CLOSE_TIMEOUT_S", 0.01)
    consumer = mq.subscribe("orders", group="billing")
    messages = await consumer.fetch(max_messages=7)
    await orders.stop()
    for message in messages:
        await message.ack()
    await consumer.close()
    assert "Group billing could not commit its place (orders-0 at 7)" in caplog.text


async def test_a_refused_last_commit_is_raised(orders: FakeBroker, mq: Client) -> None:
    consumer = mq.subscribe("orders", group="billing")
    (message,) = await consumer.fetch(max_messages=1)
    orders.script[COMMIT].append(StorageFailed("No disk."))
    await message.ack()
    with pytest.raises(StorageFailed, match="No disk"):
        await consumer.close()


async def test_commit_puts_the_place_where_the_reader_is(orders: FakeBroker, mq: Client) -> None:
    """R-DEL-10: also after a seek, backwards, and before anything was read."""
    async with mq.subscribe("orders", group="billing", start="latest") as consumer:
        await consumer.commit()
        assert orders.offsets["billing"] == {ORDERS: 100}
        await consumer.seek(ORDERS, 10)
        await consumer.commit()
        assert orders.offsets["billing"] == {ORDERS: 10}
        await consumer.commit()
        assert orders.count(COMMIT) == 2, "nothing new, nothing said"


async def test_closing_leaves_a_place_that_was_set_by_hand(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        for message in await consumer.fetch(max_messages=30):
            await message.ack()
        await consumer.commit({("orders", 0): 5})
    assert orders.offsets["billing"] == {ORDERS: 5}


async def test_going_back_to_look_does_not_move_the_place(orders: FakeBroker, mq: Client) -> None:
    async with mq.subscribe("orders", group="billing") as consumer:
        await consumer.fetch(max_messages=30)
        await consumer.commit()
        await consumer.seek(ORDERS, "earliest")
        await consumer.fetch(max_messages=3)
    assert orders.offsets["billing"] == {ORDERS: 30}


async def test_after_closing_it_is_too_late_to_acknowledge(orders: FakeBroker, mq: Client) -> None:
    """Nobody would commit it: better said than swallowed."""
    async with mq.subscribe("orders", group="billing") as consumer:
        (message,) = await consumer.fetch(max_messages=1)
    with pytest.raises(ClientClosed, match="before the message was acknowledged"):
        await message.ack()


async def test_too_much_posted_from_another_thread_is_told_by_the_next(
    orders: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.client.consuming.progress.ACKNOWLEDGED_AHEAD_MAX", 3)
    async with mq.subscribe("orders", group="billing") as consumer:
        messages = await consumer.fetch(max_messages=10)
        assert consumer.ledger.committer.post(messages[1]), "the first has the loop woken"
        assert not consumer.ledger.committer.post(messages[2])
        for message in messages[3:]:
            consumer.ledger.committer.post(message)
        await consumer.ledger.committer.commit()
        assert consumer.ledger.committer.post(messages[9]), "and the first after a commit"
        with pytest.raises(Busy, match="offset 0"):
            await messages[0].ack()


async def test_a_group_moves_past_what_its_filter_leaves_out(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-12: skipped messages advance the group, also where nothing passes at all."""
    async with mq.subscribe("orders", group="billing", tags="paid") as consumer:
        reading = asyncio.create_task(consumer.fetch())
        await orders.until(lambda: orders.offsets["billing"].get(ORDERS) == 100)
        reading.cancel()


async def test_what_is_skipped_does_not_overtake_what_is_not_acknowledged(
    orders: FakeBroker, mq: Client
) -> None:
    """R-DEL-12: a crash after it loses nothing."""
    partition = orders.topics["orders"][0]
    for _ in range(10):
        partition.append(memoryview(build_batch([(None, b"x")])))
    partition.passing = {103, 105}
    partition.looked_at_max = 1
    async with mq.subscribe("orders", group="billing", key=b"x") as consumer:
        first, second = [(await consumer.fetch())[0] for _ in range(2)]
        assert (first.offset, second.offset) == (103, 105)
        await orders.until(lambda: orders.offsets["billing"].get(ORDERS) == 103)
        waiting = asyncio.create_task(consumer.fetch())
        await orders.until(lambda: consumer.position(ORDERS) == 110)
        await second.ack()
        await consumer.ledger.committer.commit()
        assert orders.offsets["billing"][ORDERS] == 103
        await first.ack()
        await orders.until(lambda: orders.offsets["billing"].get(ORDERS) == 110)
        waiting.cancel()
