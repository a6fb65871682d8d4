"""Failed and rejected messages of consumers that have their partitions for themselves (R-DEL-9)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

import penstock.testing
from penstock.client.blocking.client import connect_blocking
from penstock.client.client import Client, connect
from penstock.client.consuming import ledger
from penstock.client.consuming.consumer import Consumer
from penstock.model.errors import InvalidRequest, InvalidTopic
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import Message
from tests.kit.broker.running import batch, running


@contextlib.asynccontextmanager
async def orders(count: int) -> AsyncIterator[tuple[Client, Consumer, list[Message]]]:
    """So many messages, which group `billing` has taken."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders")
        await raw.produce("orders", batch([b"%d" % number for number in range(count)]))
        async with mq.subscribe("orders", group="billing") as consumer:
            messages: list[Message] = []
            while len(messages) < count:
                messages += await consumer.fetch()
            yield mq, consumer, messages


async def letters(mq: Client) -> list[tuple[str, str, int]]:
    return [
        (letter.id, letter.reason, letter.attempts)
        async for letter in mq.dead_letters.list("billing")
    ]


async def test_a_rejected_message_is_a_dead_letter_and_acknowledged() -> None:
    """R-DEL-9: when reject returns, the letter is durable."""
    async with orders(3) as (mq, consumer, messages):
        await messages[0].ack()
        await messages[1].reject("no such account")
        assert await letters(mq) == [("orders/0/1", "no such account", 1)]
        await messages[2].ack()
        await consumer.commit()
        assert await consumer.committed(("orders", 0)) == 3


async def test_attempts_are_counted_until_the_message_is_settled() -> None:
    async with orders(3) as (mq, _, messages):
        assert messages[0].attempt == 1
        await messages[0].fail("not now")
        await messages[0].fail("not now")
        assert [message.attempt for message in messages] == [3, 1, 1]
        await messages[0].reject("never")
        assert await letters(mq) == [("orders/0/0", "never", 2)]
        assert messages[0].attempt == 1
        await messages[1].fail()
        await messages[1].ack()
        assert messages[1].attempt == 1


async def test_what_was_settled_is_not_rejected_any_more() -> None:
    async with orders(3) as (mq, _, messages):
        await messages[0].ack()
        await messages[2].ack()
        await messages[0].reject("too late")
        await messages[2].reject("too late")
        await messages[1].reject("never")
        await messages[1].reject("never again")
        assert await letters(mq) == [("orders/0/1", "never", 1)]


async def test_what_only_a_lease_has_is_refused_with_what_to_do() -> None:
    async with orders(1) as (mq, _, [message]):
        with pytest.raises(InvalidRequest, match=r"Try it again here, reject\(\) it, or share"):
            await message.release()
        with pytest.raises(InvalidRequest, match=r"only messages of mq.share\(\)"):
            await message.extend()
        async with mq.subscribe("orders") as alone:
            [other] = await alone.fetch()
            for settle in (other.fail, other.reject):
                with pytest.raises(InvalidRequest, match="no group"):
                    await settle("why")


async def test_failures_that_nobody_settles_are_forgotten_at_some_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "_FAILED_MAX", 2)
    async with orders(3) as (_, _, messages):
        for message in messages:
            await message.fail()
        assert [message.attempt for message in messages] == [1, 2, 2]


async def test_a_served_message_that_keeps_failing_is_a_dead_letter() -> None:
    """R-DEL-9: attempts with backoff, in the process that handles; the handler sees which it is."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders")
        await raw.produce("orders", batch([b"0", b"1"]))
        attempts: list[int] = []

        def handle(message: Message) -> None:
            attempts.append(message.attempt)
            if message.offset == 0:
                raise ValueError("bad order")

        serving = asyncio.create_task(
            mq.serve(
                handle, "orders", group="billing", concurrency=1, attempts=3, retry_backoff_ms=1
            )
        )
        async with asyncio.timeout(10):
            while len(attempts) < 4:
                await asyncio.sleep(0.01)
        assert await letters(mq) == [("orders/0/0", "ValueError: bad order", 3)]
        assert attempts == [1, 2, 3, 1]
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving


async def test_a_broker_buries_nothing_of_its_own_and_nothing_that_is_not_there() -> None:
    async with orders(1) as (mq, consumer, _):
        routes = consumer.ledger._routes
        for offset in (1, 2**62, -1):
            request = pb.DeadLetterRequest(group="billing", topic="orders", offset=offset)
            await routes.call_leader(TopicPartition("orders", 0), DEAD_LETTER, request)
        assert await letters(mq) == []
        await consumer.commit()
        request = pb.DeadLetterRequest(group="billing", topic="__offsets", offset=0)
        with pytest.raises(InvalidTopic, match="broker's own state"):
            await routes.call_leader(TopicPartition("orders", 0), DEAD_LETTER, request)


def test_without_an_event_loop() -> None:
    with penstock.testing.broker() as address, connect_blocking(address) as mq:
        for value in (b"a", b"b"):
            mq.publish("orders", value, partition=0)
        with mq.subscribe("orders", group="billing") as consumer:
            messages: list[Message] = []
            while len(messages) < 2:
                messages += consumer.fetch()
            messages[0].fail("not now")
            assert messages[0].attempt == 2
            with pytest.raises(InvalidRequest, match="reject"):
                messages[0].release()
            messages[0].reject("never")
            messages[1].ack()
        [letter] = mq.dead_letters.list("billing")
        assert (letter.reason, letter.value) == ("never", b"a")
        assert mq.dead_letters.show("billing", letter.id) == letter
        assert [one.group for one in mq.dead_letters.groups()] == ["billing"]
        assert mq.dead_letters.redrive("billing", dry_run=True).redriven == 1
        assert mq.dead_letters.drop("billing", [letter.id]).dropped == 1
        assert list(mq.dead_letters.list("billing")) == []
