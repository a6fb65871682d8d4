"""Housekeeping: retention by time and size, through the broker (R-CORE-3)."""

from __future__ import annotations

import asyncio

from penstock.storage.log.start_offset import write_start_offset
from penstock.storage.segments.recovery import log_files
from tests.kit.broker.running import ManualClock, RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk


async def start_offset(client: RawClient) -> int:
    return (await client.describe("orders")).partitions[0].log_start_offset


async def until_start_offset(client: RawClient, offset: int) -> None:
    async with asyncio.timeout(10):
        while await start_offset(client) != offset:
            await asyncio.sleep(0)


async def fill(client: RawClient, clock: ManualClock, count: int) -> None:
    for _ in range(count):
        await client.produce("orders", batch([b"x" * 16_000], timestamp_ms=clock.time_ms))
        clock.time_ms += 1000


async def test_old_segments_go_and_the_rest_stays_readable() -> None:
    """R-CORE-3: messages stay until retention takes them; indexes go with their segments."""
    clock = ManualClock()
    disk = SimulatedDisk()
    async with running(disk.root, clock=clock, retention_check_ms=1) as (_, client):
        await client.create("orders", segment_bytes="70000", retention_ms="60000")
        await fill(client, clock, 20)
        assert await start_offset(client) == 0
        clock.time_ms += 45_000
        await until_start_offset(client, 4)
        messages = await client.fetch("orders", 4)
        assert messages[0].offset == 4
        clock.time_ms += 3_600_000
        await until_start_offset(client, 16)


async def test_a_partition_is_kept_below_its_size() -> None:
    """R-CORE-3: by size, per topic."""
    clock = ManualClock()
    async with running(clock=clock, retention_check_ms=1) as (_, client):
        await client.create("orders", segment_bytes="70000", retention_bytes="150000")
        await fill(client, clock, 20)
        async with asyncio.timeout(10):
            while (await client.describe("orders")).partitions[0].bytes > 150_000:
                await asyncio.sleep(0)


async def test_a_quiet_topics_segment_is_sealed_so_that_retention_can_take_it() -> None:
    clock = ManualClock()
    async with running(clock=clock, retention_check_ms=1) as (_, client):
        await client.create("orders", segment_ms="10000", retention_ms="20000")
        await fill(client, clock, 3)
        clock.time_ms += 60_000
        await until_start_offset(client, 3)
        await client.produce("orders", batch([b"new"]))
        assert [message.offset for message in await client.fetch("orders", 3)] == [3]


async def test_consumption_never_deletes() -> None:
    """R-CORE-3: what was read can be read again."""
    async with running() as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a", b"b"]))
        assert await client.values("orders") == await client.values("orders") == [b"a", b"b"]


async def test_segments_before_the_logs_own_start_go() -> None:
    """Records that were deleted on request give back their room, whatever the retention."""
    clock = ManualClock()
    disk = SimulatedDisk()
    async with running(disk.root, clock=clock) as (_, client):
        await client.create("orders", segment_bytes="70000", retention_ms="-1")
        await fill(client, clock, 20)
    folder = disk.root.subdirectory("topics").subdirectory("orders").subdirectory("0")
    write_start_offset(folder, 10)
    async with running(disk.root, clock=clock, retention_check_ms=1) as (_, client):
        assert await start_offset(client) == 10
        async with asyncio.timeout(10):
            while min(file.first_offset for file in log_files(folder.names())) != 8:
                await asyncio.sleep(0)
        assert (await client.fetch("orders", 10))[0].offset == 10
        assert await start_offset(client) == 10
