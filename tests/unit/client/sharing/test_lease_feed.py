"""Leased messages: when they are asked for, and how that ends; pushed, the same as by asking,
within the credit, through failures.

R-DEL-3, R-DEL-6, R-DEL-8.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

import penstock
from penstock import Client
from penstock.client.config import ClientConfig
from penstock.client.connection.routes import Routes
from penstock.client.reading.asked import AskedSource
from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.consumer import SharedConsumer
from penstock.client.sharing.lease_feed import LeaseFeed
from penstock.client.sharing.settings import SharedConsumerConfig
from penstock.model.errors import NotLeader, Parked, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.net.channel import AnswerCallback
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message
from tests.kit.broker.running import RawClient, batch, running
from tests.kit.client.standstill import stall


@contextlib.asynccontextmanager
async def clients(*names: str, **settings: Any) -> AsyncIterator[tuple[RawClient, list[Client]]]:
    async with contextlib.AsyncExitStack() as stack:
        broker, raw = await stack.enter_async_context(running(**settings))
        connected = [
            await stack.enter_async_context(
                penstock.connect(
                    broker.addresses, client_name=name, retry_backoff_ms=1, retry_backoff_ms_max=2
                )
            )
            for name in names
        ]
        yield raw, connected


async def publish(raw: RawClient, numbers: range, partition: int = 0) -> None:
    for number in numbers:
        await raw.produce("jobs", batch([b"%d" % number]), partition=partition)


async def take(consumer: SharedConsumer, count: int) -> list[Message]:
    async with asyncio.timeout(10):
        return [(await consumer.fetch(1))[0] for _ in range(count)]


def numbers(messages: list[Message]) -> list[int]:
    return [int(message.value or b"") for message in messages]


async def record(raw: RawClient, name: str) -> pb.ListClientsResponse.Client:
    answer, _ = await raw.channel.call(calls.LIST_CLIENTS, pb.ListClientsRequest())
    [client] = [each for each in answer.clients if each.name == name]
    return client


async def until_state(raw: RawClient, name: str, state: str) -> pb.ListClientsResponse.Client:
    async with asyncio.timeout(10):
        while (found := await record(raw, name)).state != state:
            pass
    return found


async def test_the_same_loop_takes_what_is_pushed() -> None:
    """R-DEL-3: from all partitions, settled as ever."""
    async with clients("a") as (raw, [mq]):
        await raw.create("jobs", 3)
        for partition in range(3):
            await publish(raw, range(partition, 9, 3), partition)
        async with mq.share("jobs", group="workers", push=True) as consumer:
            found = []
            async with asyncio.timeout(10):
                async for message in consumer:
                    found.append(message)
                    await message.ack()
                    if len(found) == 9:
                        break
            await consumer.commit()
            assert sorted(numbers(found)) == list(range(9))
            streams = (await record(raw, "a")).streams
            assert [(each.shared, each.group) for each in streams] == [(True, "workers")] * 3
            assert {each.member_id for each in streams} == {consumer.member_id}
        assert consumer.lost_count == 0
        assert not (await record(raw, "a")).streams


async def test_the_window_is_what_is_fetched_ahead_and_others_get_the_rest() -> None:
    """R-DEL-6: credit follows the reader."""
    async with clients("slow", "quick") as (raw, [slow, quick]):
        await raw.create("jobs")
        await publish(raw, range(100))
        async with slow.share("jobs", group="workers", push=True, prefetch=10) as lazy:
            [stream] = (await until_state(raw, "slow", "slow")).streams
            assert stream.delivered + stream.in_flight == 10
            async with quick.share("jobs", group="workers", push=True) as busy:
                taken = await take(busy, 90)
                for message in taken:
                    await message.ack()
            mine = await take(lazy, 10)
            assert sorted(numbers(taken) + numbers(mine)) == list(range(100))
            # Having taken them it has credit again.
            await publish(raw, range(100, 105))
            assert numbers(await take(lazy, 5)) == list(range(100, 105))


@pytest.mark.parametrize("size", [10, 100_000])
async def test_credit_is_given_back_to_the_last_message(size: int) -> None:
    """R-DEL-6: by messages and by bytes."""
    async with clients("a") as (raw, [mq]):
        await raw.create("jobs")
        async with mq.share(
            "jobs", group="workers", push=True, prefetch=3, buffer_bytes=150_000
        ) as consumer:
            for _ in range(20):
                await raw.produce("jobs", batch([b"x" * size] * 2))
            for message in await take(consumer, 40):
                await message.ack()


async def test_a_parked_stream_is_resumed_and_what_went_to_others_is_not_handed_out() -> None:
    """R-DEL-8: one holder at a time."""
    async with clients("a", "b", push_timeout_ms=50, push_retry_ms=5) as (raw, [mq, other]):
        await raw.create("jobs")
        async with mq.share("jobs", group="workers", push=True) as consumer:
            await publish(raw, range(1))
            [first] = await take(consumer, 1)
            go_on = stall(mq)
            await publish(raw, range(1, 4))
            await until_state(raw, "a", "parked")
            async with other.share("jobs", group="workers", push=True) as helper:
                helped = await take(helper, 3)
                assert numbers(helped) == [1, 2, 3]
                go_on()
                await until_state(raw, "a", "alive")
                for message in (first, *helped):
                    await message.ack()
                await helper.commit()
            await publish(raw, range(4, 5))
            assert numbers(await take(consumer, 1)) == [4]
            await consumer.commit()
            assert consumer.lost_count == 0


async def test_what_comes_late_is_handed_out_only_if_it_was_not_withdrawn() -> None:
    """R-DEL-8: also where so much has come that this is read long before the broker's word."""
    async with clients("a", "b", push_timeout_ms=50, push_retry_ms=5) as (raw, [mq, other]):
        await raw.create("jobs")
        async with mq.share("jobs", group="workers", push=True) as consumer:
            await publish(raw, range(1))
            await (await take(consumer, 1))[0].ack()
            await consumer.commit()
            go_on = stall(mq)
            for _ in range(3):
                await raw.produce("jobs", batch([b"x" * 700_000]))
            await until_state(raw, "a", "parked")
            async with other.share("jobs", group="workers", push=True) as helper:
                helped = await take(helper, 3)
                reading = asyncio.create_task(consumer.fetch(1))
                await asyncio.sleep(0)
                go_on()
                await until_state(raw, "a", "alive")
                for message in helped:
                    await message.ack()
                await helper.commit()
            await publish(raw, range(4, 5))
            async with asyncio.timeout(10):
                assert numbers(await reading) == [4]


async def test_what_comes_late_and_is_this_members_still_is_handed_out() -> None:
    """R-DEL-8: the broker has not given it up, though it waits for the answer no longer."""
    async with clients("a", push_timeout_ms=50, push_retry_ms=60_000) as (raw, [mq]):
        await raw.create("jobs")
        async with mq.share("jobs", group="workers", push=True) as consumer:
            await publish(raw, range(1))
            await take(consumer, 1)
            go_on = stall(mq)
            await publish(raw, range(1, 4))
            await until_state(raw, "a", "slow")
            go_on()
            assert numbers(await take(consumer, 3)) == [1, 2, 3]
            await until_state(raw, "a", "alive")


async def test_a_reader_may_resume_by_itself() -> None:
    """R-DEL-8: parked until the consumer sends resume."""
    async with clients("a", push_timeout_ms=5, push_retry_ms=5) as (raw, [mq]):
        await raw.create("jobs")
        async with mq.share("jobs", group="workers", push=True, auto_resume=False) as consumer:
            go_on = stall(mq)
            await publish(raw, range(2))
            await until_state(raw, "a", "parked")
            go_on()
            with pytest.raises(Parked, match="left a delivery unanswered twice"):
                await take(consumer, 2)
            assert (await record(raw, "a")).state == "parked"
            consumer.resume()
            assert sorted(numbers(await take(consumer, 2))) == [0, 1]


async def test_a_lost_connection_costs_nothing_but_an_attempt() -> None:
    """R-DEL-7: what was not taken goes to whoever is there first, once."""
    async with clients("a") as (raw, [mq]):
        await raw.create("jobs")
        await publish(raw, range(5))
        async with mq.share("jobs", group="workers", push=True) as consumer:
            [first] = await take(consumer, 1)
            assert mq._connected is not None
            for channel in list(mq._connected.links._open_channels):
                channel.connection.abort()
            again = await take(consumer, 5)
            assert sorted(numbers(again)) == list(range(5))
            assert max(message.attempt for message in again) == 2
            for message in again:
                await message.ack()
            await first.ack()
            await consumer.commit()


async def test_closing_gives_back_what_was_not_taken() -> None:
    async with clients("a", "b") as (raw, [mq, other]):
        await raw.create("jobs")
        await publish(raw, range(10))
        async with mq.share("jobs", group="workers", push=True) as consumer:
            [message] = await take(consumer, 1)
            await message.ack()
            async with other.share("jobs", group="workers", push=True) as helper:
                await consumer.close()
                taken = await take(helper, 9)
                assert numbers(taken) == list(range(1, 10))
                assert {each.attempt for each in taken} == {1}


# --- asked for -----------------------------------------------------------------------------------

JOBS = TopicPartition("jobs", 0)


class Leader:
    """Answers when it is told to."""

    is_closed = False

    def __init__(self) -> None:
        self.questions: list[tuple[pb.LeaseRequest, AnswerCallback]] = []
        self.refreshed: list[bool] = []

    @property
    def connection(self) -> Leader:
        return self

    async def leader(self, *_: Any, refresh: bool) -> Leader:
        self.refreshed.append(refresh)
        return self

    def start_call(
        self, number: int, envelope: bytes, _: object, callback: AnswerCallback, timeout_s: float
    ) -> None:
        assert (number, timeout_s) == (pb.CALL_LEASE, 10.0)
        self.questions.append((pb.LeaseRequest.FromString(envelope), callback))

    def answer(self, error: PenstockError | None = None, *, count: int = 1) -> None:
        """To the last question."""
        nothing = memoryview(b"")
        _, callback = self.questions[-1]
        if error is not None:
            callback(error, nothing, nothing)
            return
        leased = pb.LeaseResponse(lease_ms=30_000)
        leased.leases.add(first=0, last=count - 1, attempt=1)
        payload = memoryview(batch([b"one"] * count))
        callback(None, memoryview(leased.SerializeToString()), payload)


class Bench:
    def __init__(self) -> None:
        self.failures: list[PenstockError] = []
        self.leader = Leader()
        config = ClientConfig(retry_backoff_ms=1, retry_backoff_ms_max=1)
        feeds: dict[tuple[str, int], LeaseFeed] = {}
        self.buffer = LeaseBuffer(10, feeds)
        self.source = AskedSource(cast(Routes, self.leader), config)
        settings = SharedConsumerConfig(group="g")
        self.feed = feeds[JOBS] = LeaseFeed(
            JOBS, "a", settings, self.source, self.buffer, None, self.failures.append
        )
        self.feed.supply.go_on()

    async def asked(self, times: int) -> list[int]:
        """For how many messages, when it has been so often."""
        async with asyncio.timeout(10):
            while len(self.leader.questions) < times:
                await asyncio.sleep(0)
        return [question.messages_max for question, _ in self.leader.questions]


async def test_no_more_is_asked_for_than_there_is_room_for() -> None:
    """R-DEL-6"""
    bench = Bench()
    assert await bench.asked(1) == [10]
    bench.leader.answer(count=7)
    assert await bench.asked(2) == [10, 3]
    bench.leader.answer(count=3)
    assert await bench.asked(2) == [10, 3], "it is full"
    for _ in range(4):
        assert bench.buffer.take_leased() is not None
    assert await bench.asked(3) == [10, 3, 4]


async def test_an_error_that_passes_is_tried_again_with_a_new_route() -> None:
    bench = Bench()
    for times in (1, 2, 3):
        await bench.asked(times)
        bench.leader.answer(NotLeader())
    await bench.asked(4)
    assert bench.leader.refreshed == [False, True, True, True]
    bench.leader.answer()
    assert (len(bench.buffer), bench.failures) == (1, [])


async def test_what_was_asked_for_comes_though_it_is_left() -> None:
    """R-DEL-3: the broker may have leased it by now; nobody else gets it before the lease ends."""
    bench = Bench()
    await bench.asked(1)
    bench.feed.leave()
    bench.leader.answer()
    assert len(bench.buffer) == 1
    assert len(await bench.asked(1)) == 1


async def test_who_closes_takes_nothing_more() -> None:
    bench = Bench()
    await bench.asked(1)
    bench.feed.close()
    bench.leader.answer()
    assert len(bench.buffer) == 0


async def test_a_partition_that_is_gone_when_it_is_left_is_no_failure() -> None:
    bench = Bench()
    await bench.asked(1)
    bench.feed.leave()
    bench.leader.answer(UnknownTopic("jobs was deleted."))
    assert bench.failures == []


async def test_a_partition_that_is_gone_is_one_otherwise() -> None:
    bench = Bench()
    await bench.asked(1)
    bench.leader.answer(error := UnknownTopic("jobs was deleted."))
    assert bench.failures == [error]
    bench.feed.supply.go_on()
    assert len(await bench.asked(1)) == 1
