"""Fetch: whole batches from the asked offset, long polls, offsets by place and time."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import (
    ConnectionLost,
    InvalidRequest,
    OffsetOutOfRange,
    UnknownTopic,
)
from penstock.net.address import parse_address
from penstock.net.channel import connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from tests.kit.broker.running import RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk


async def find(client: RawClient, **at: int | bool) -> tuple[int, int]:
    request = pb.FindOffsetRequest(topic="orders", **at)  # type: ignore[arg-type]
    response, _ = await client.channel.call(calls.FIND_OFFSET, request)
    return response.offset, response.timestamp_ms


async def settled() -> None:
    """Let the loop run until what was sent has been handled."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_reading_starts_at_the_asked_offset() -> None:
    """R-STO-2: exactly at the offset, also inside a batch."""
    async with running() as (_, client):
        await client.create("orders")
        for first in range(0, 30, 3):
            values: list[bytes | None] = [b"%d" % number for number in range(first, first + 3)]
            await client.produce("orders", batch(values))
        for offset in range(30):
            messages = await client.fetch("orders", offset)
            assert [message.value for message in messages] == [
                b"%d" % number for number in range(offset, 30)
            ]


async def test_max_bytes_is_kept_but_one_batch_always_comes() -> None:
    async with running() as (_, client):
        await client.create("orders")
        for _ in range(50):
            await client.produce("orders", batch([b"x" * 1000]))
        assert len(await client.fetch("orders", max_bytes=1)) == 1
        assert 10 <= len(await client.fetch("orders", max_bytes=20_000)) <= 20


async def test_a_compacted_log_is_called_so() -> None:
    """Or a client would take its gaps for damage."""
    disk = SimulatedDisk()
    request = pb.FetchRequest(topic="orders", max_bytes=1000)
    for compacted in (False, True):
        async with running(disk.root) as (_, client):
            if not compacted:
                await client.create("orders")
                await client.produce("orders", batch([b"a"]))
            response, _ = await client.channel.call(calls.FETCH, request)
            assert response.compacted == compacted
        folder = disk.root.subdirectory("topics").subdirectory("orders").subdirectory("0")
        write_journal(folder, COMPACTION_JOURNAL, b"")


async def test_an_empty_fetch_answers_at_once_without_a_wait() -> None:
    async with running() as (_, client):
        await client.create("orders")
        assert await client.fetch("orders", min_bytes=1, max_wait_ms=0) == []


async def test_a_long_poll_is_answered_by_the_next_message() -> None:
    """R-DEL-6: pull with long polling, no busy polling."""
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(client.fetch("orders", min_bytes=1, max_wait_ms=60_000))
        await settled()
        assert not poll.done()
        await client.produce("orders", batch([b"a"]))
        assert [message.value for message in await poll] == [b"a"]


async def test_a_long_poll_waits_for_enough() -> None:
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(client.fetch("orders", min_bytes=2500, max_wait_ms=60_000))
        for _ in range(2):
            await client.produce("orders", batch([b"x" * 1000]))
            await settled()
            assert not poll.done()
        await client.produce("orders", batch([b"x" * 1000]))
        assert len(await poll) == 3


async def test_a_long_poll_ends_with_what_there_is() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        messages = await client.fetch("orders", min_bytes=1_000_000, max_wait_ms=1)
        assert [message.value for message in messages] == [b"a"]


async def test_a_long_poll_hears_of_its_topics_end() -> None:
    async with running() as (_, client):
        await client.create("orders")
        poll = asyncio.create_task(client.fetch("orders", min_bytes=1, max_wait_ms=60_000))
        await settled()
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        with pytest.raises(UnknownTopic):
            await poll


async def test_a_long_poll_does_not_hold_up_a_stop() -> None:
    async with running() as (broker, client):
        await client.create("orders")
        poll = asyncio.create_task(client.fetch("orders", min_bytes=1, max_wait_ms=60_000))
        await settled()
        await broker.stop()
        assert await poll == []


async def test_a_client_that_left_is_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as (broker, client):
        await client.create("orders")
        leaving = RawClient(await connect_channel(parse_address(broker.addresses[0])))
        poll = asyncio.create_task(leaving.fetch("orders", min_bytes=1, max_wait_ms=60_000))
        await settled()
        leaving.channel.close()
        with pytest.raises(ConnectionLost):
            await poll
        await client.produce("orders", batch([b"a"]))
        assert await client.values("orders") == [b"a"]
    assert not caplog.records


@pytest.mark.parametrize("offset", [-1, 2, 2**40])
async def test_an_offset_outside_the_log_is_refused_with_the_range(offset: int) -> None:
    async with running() as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        with pytest.raises(OffsetOutOfRange, match="0 to 1"):
            await client.fetch("orders", offset)


async def test_offsets_by_place_and_time() -> None:
    """R-DEL-10: seek by time."""
    async with running() as (_, client):
        await client.create("orders")
        for number in range(10):
            await client.produce("orders", batch([b"a", b"b"], timestamp_ms=1000 * number))
        assert await find(client, earliest=True) == (0, -1)
        assert await find(client, latest=True) == (20, -1)
        assert await find(client, timestamp_ms=3000) == (6, 3000)
        assert await find(client, timestamp_ms=3001) == (8, 4000)
        assert await find(client, timestamp_ms=9001) == (20, -1)
        with pytest.raises(InvalidRequest):
            await find(client)
