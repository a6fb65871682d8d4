"""Fetch with a filter, through a broker: what comes, when it waits, and how it is refused."""

from __future__ import annotations

import asyncio
import tracemalloc

import pytest

from penstock.broker.handlers import filtered_fetch
from penstock.broker.turns import fair_turns
from penstock.model.errors import ConnectionLost, InvalidFilter, OffsetOutOfRange, UnknownTopic
from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.net.connection import Pause
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Message, decode_messages
from tests.kit.broker.running import RawClient, batch, running

NOW_MS = 1_700_000_000_000
EVEN = pb.Filter(tags=["even"])


def numbers(*wanted: int) -> bytearray:
    """A batch of messages: key n, tagged even or odd."""
    builder = BatchBuilder(1 << 22)
    for number in wanted:
        tag = b"odd" if number % 2 else b"even"
        builder.append(NOW_MS, b"%d" % number, b"%d" % number, [("penstock-tag", tag)])
    return bytearray(builder.build())


async def fetch(
    client: RawClient,
    filter_: pb.Filter,
    offset: int = 0,
    *,
    max_wait_ms: int = 0,
    max_bytes: int = 1 << 20,
) -> tuple[list[Message], int]:
    request = pb.FetchRequest(
        topic="orders",
        offset=offset,
        filter=filter_,
        max_bytes=max_bytes,
        min_bytes=1,
        max_wait_ms=max_wait_ms,
    )
    response, payload = await client.channel.call(calls.FETCH, request)
    return decode_messages(payload, "orders", 0, offset), response.next_offset


async def settled() -> None:
    """Let the loop run until what was sent has been handled."""
    for _ in range(40):
        await asyncio.sleep(0)


async def test_only_what_passes_comes_and_the_rest_is_behind() -> None:
    """R-DEL-12: skipped messages advance the reader."""
    async with running() as (_, client):
        await client.create("orders")
        for first in range(0, 30, 3):
            await client.produce("orders", numbers(first, first + 1, first + 2))
        messages, next_offset = await fetch(client, EVEN)
        assert [message.offset for message in messages] == list(range(0, 30, 2))
        assert next_offset == 30
        messages, next_offset = await fetch(client, pb.Filter(key=b"17"), 4)
        assert ([message.offset for message in messages], next_offset) == ([17], 30)
        assert await fetch(client, pb.Filter(key=b"no such"), 7) == ([], 30)


@pytest.mark.parametrize(
    ("filter_", "message"),
    [
        (pb.Filter(expression="price >"), "at character 8: expected a value after '>'"),
        (pb.Filter(expression="(" * 2000), "nested more than"),
        (pb.Filter(expression="a" * 5000), "5000 bytes, and 4096 is the limit"),
        (pb.Filter(tags=["x"] * 200), "200 tags"),
        (pb.Filter(key=bytes(10_000)), "10000 bytes"),
    ],
)
async def test_a_filter_that_is_wrong_is_refused_and_nothing_else(
    filter_: pb.Filter, message: str
) -> None:
    """R-DEL-12: a bad expression is refused with the position of the error."""
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(InvalidFilter, match=message):
            await fetch(client, filter_, max_wait_ms=60_000)
        assert await fetch(client, EVEN) == ([], 0)


async def test_a_long_poll_waits_until_something_passes() -> None:
    """R-DEL-6, R-DEL-12: and has not looked at anything twice."""
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(fetch(client, EVEN, max_wait_ms=60_000))
        await client.produce("orders", numbers(1, 3))
        await settled()
        assert not poll.done()
        await client.produce("orders", numbers(5, 6))
        messages, next_offset = await poll
        assert ([message.offset for message in messages], next_offset) == ([3], 4)


async def test_a_long_poll_tells_soon_how_far_it_has_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-12: skipped messages advance the group, also when nothing passes for long."""
    monkeypatch.setattr(filtered_fetch, "_SKIPPED_WAIT_S", 0.02)
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(fetch(client, EVEN, max_wait_ms=60_000))
        await client.produce("orders", numbers(1))
        await client.produce("orders", numbers(3))
        assert not poll.done(), "not at once for each of them"
        assert await poll == ([], 2)


async def test_a_long_poll_ends_when_its_time_is_up() -> None:
    async with running() as (_, client):
        await client.create("orders")
        assert await fetch(client, EVEN, max_wait_ms=1) == ([], 0)


async def test_a_long_poll_hears_of_its_topics_end() -> None:
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(fetch(client, EVEN, max_wait_ms=60_000))
        await settled()
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        with pytest.raises(UnknownTopic):
            await poll


async def test_a_long_poll_does_not_hold_up_a_stop() -> None:
    async with running() as (broker, client):
        await client.create("orders")
        poll = asyncio.create_task(fetch(client, EVEN, max_wait_ms=60_000))
        await settled()
        await broker.stop()
        assert await poll == ([], 0)


async def test_a_client_that_left_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """While it waits, and while it looks."""
    async with running() as (broker, client):
        await client.create("orders")
        for offset in (0, 20_000):
            leaving = RawClient(await connect_channel(parse_address(broker.addresses[0])))
            poll = asyncio.create_task(fetch(leaving, pb.Filter(key=b"x"), max_wait_ms=60_000))
            await settled()
            leaving.channel.close()
            with pytest.raises(ConnectionLost):
                await poll
            await client.produce("orders", numbers(*range(offset, offset + 20_000)))
        assert (await fetch(client, pb.Filter(key=b"30000")))[1] == 40_000
    assert not caplog.records


@pytest.mark.parametrize("offset", [-1, 2, 2**40])
async def test_an_offset_outside_the_log_is_refused_with_the_range(offset: int) -> None:
    async with running() as (_, client):
        await client.create("orders")
        await client.produce("orders", numbers(1))
        with pytest.raises(OffsetOutOfRange, match="0 to 1"):
            await fetch(client, EVEN, offset)
        elsewhere = pb.FetchRequest(topic="no such", filter=EVEN)
        with pytest.raises(UnknownTopic):
            await client.channel.call(calls.FETCH, elsewhere)


async def test_others_are_served_while_a_large_batch_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-12: an expensive filter on many messages does not hold up a small call."""
    monkeypatch.setattr(fair_turns, "_TURN_S", 0.0)  # a piece in each turn, on every machine
    async with running() as (_, client):
        await client.create("orders")
        await client.create("small")
        await client.produce("small", batch([b"a"]))
        await client.produce("orders", numbers(*range(400)))
        dear = pb.Filter(expression=" OR ".join(["tag LIKE '%x_y%'"] * 10))
        polls = [asyncio.create_task(fetch(client, dear)) for _ in range(3)]
        answered = 0
        while not all(poll.done() for poll in polls):
            assert len(await client.fetch("small")) == 1
            answered += 1
        assert answered > 100, "looked at in one go, each batch would let in one call"
        assert [await poll for poll in polls] == [([], 400)] * 3


async def test_so_many_fetches_of_one_client_are_all_answered() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await client.produce("orders", numbers(*range(100)))
        polls = [asyncio.create_task(fetch(client, EVEN, offset % 100)) for offset in range(1500)]
        for number, poll in enumerate(polls):
            messages, next_offset = await poll
            assert next_offset == 100
            assert len(messages) == (100 - number % 100) // 2


async def test_answers_that_nobody_reads_are_few() -> None:
    """R-DEL-12: they are in memory, so the next is not made before some have left."""
    async with running() as (broker, client):
        await client.create("orders")
        builder = BatchBuilder(1 << 20)
        for number in range(9):
            builder.append(NOW_MS, b"%d" % (number % 2), bytes(100_000))
        await client.produce("orders", bytearray(builder.build()))
        deaf = await connect_channel(parse_address(broker.addresses[0]))
        request = pb.FetchRequest(topic="orders", filter=pb.Filter(key=b"0"), max_bytes=1 << 20)
        answered: list[int] = []
        for _ in range(200):
            deaf.start_call(
                calls.FETCH.number,
                request.SerializeToString(),
                (),
                lambda error, envelope, payload: answered.append(len(payload)),
            )
        await settled()
        deaf.connection.pause_reading(Pause.DRAINING)
        tracemalloc.start()
        try:
            for _ in range(50):
                assert len((await fetch(client, pb.Filter(key=b"0")))[0]) == 5
            assert tracemalloc.get_traced_memory()[0] < 20 << 20
        finally:
            tracemalloc.stop()
        deaf.connection.resume_reading(Pause.DRAINING)
        async with asyncio.timeout(20):
            while len(answered) < 200:
                await asyncio.sleep(0.01)
        deaf.close()
    assert min(answered) > 500_000
