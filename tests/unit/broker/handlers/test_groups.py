"""Group offsets over the wire: kept, found, surviving (R-DEL-10)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker import group_offsets
from penstock.model.errors import DiskFull, InvalidRequest, UnknownTopic
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.testing.simulated_disk import SimulatedDisk
from tests.support import RawClient, running


async def committed(client: RawClient, group: str) -> dict[str, int]:
    request = pb.FetchOffsetsRequest(group=group)
    response, _ = await client.channel.call(calls.FETCH_OFFSETS, request)
    return {offset.topic: offset.offset for offset in response.offsets}


@pytest.mark.parametrize("stop", ["clean", "crash"])
async def test_commits_survive(stop: str) -> None:
    """R-DEL-10: kept by the broker, also across a crash."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.create("events")
        assert await committed(client, "billing") == {}
        for offset in range(10):
            await client.commit("billing", offset)
        await client.commit("billing", 3, "events")
        await client.commit("audit", 5)
        crashed = disk.after_crash("lost")
    async with running((disk if stop == "clean" else crashed).root) as (_, client):
        assert await committed(client, "billing") == {"orders": 9, "events": 3}
        response, _ = await client.channel.call(calls.LIST_GROUPS, pb.ListGroupsRequest())
        assert list(response.groups) == ["audit", "billing"]


async def test_commits_at_the_same_time_share_a_batch() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await asyncio.gather(*(client.commit(f"group{number}", number) for number in range(200)))
        for number in range(200):
            assert await committed(client, f"group{number}") == {"orders": number}


async def test_mistakes_are_refused() -> None:
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(UnknownTopic):
            await client.commit("g", 0, "nowhere")
        with pytest.raises(InvalidRequest):
            await client.commit("g", -1)
        with pytest.raises(InvalidRequest):
            await client.commit("", 1)
        assert await committed(client, "g") == {}


async def test_a_commit_that_could_not_be_written_is_not_there() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.commit("g", 1)
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        with pytest.raises(DiskFull):
            await client.commit("g", 2)
        assert await committed(client, "g") == {"orders": 1}
        disk.capacity_bytes = None
        await client.commit("g", 3)
    async with running(disk.root) as (_, client):
        assert await committed(client, "g") == {"orders": 3}


async def test_the_topic_does_not_grow_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint says the state once more, and what came before it is deleted."""
    monkeypatch.setattr(group_offsets, "_CHECKPOINT_BYTES_MIN", 2_000)
    disk = SimulatedDisk()
    async with running(disk.root, retention_check_ms=1) as (_, client):
        await client.create("orders")
        for offset in range(100):
            await client.commit(f"group{offset % 3}", offset)
        async with asyncio.timeout(10):
            while not (await client.describe("__offsets")).partitions[0].log_start_offset:
                await asyncio.sleep(0)
        crashed = disk.after_crash("lost")
    for found in (disk, crashed):
        async with running(found.root) as (_, client):
            for group, offset in (("group0", 99), ("group1", 97), ("group2", 98)):
                assert await committed(client, group) == {"orders": offset}
