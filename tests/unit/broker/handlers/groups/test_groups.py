"""Group offsets over the wire: kept, found, surviving (R-DEL-10)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.groups import log as group_log
from penstock.model.errors import (
    DiskFull,
    InvalidGroup,
    InvalidRequest,
    UnknownGroup,
    UnknownTopic,
)
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import RawClient, allow_small_segments, batch, running
from tests.kit.simulated_disk import SimulatedDisk


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
        request = pb.CommitOffsetsRequest(group="g", offsets=[pb.GroupOffset(topic="orders")])
        request.offsets[0].partition = 9
        with pytest.raises(UnknownTopic, match="no partition 9"):
            await client.channel.call(calls.COMMIT_OFFSETS, request)
        with pytest.raises(InvalidRequest):
            await client.commit("g", -1)
        with pytest.raises(InvalidGroup):
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
    """Compaction leaves the last commit of each; with or without a snapshot the same is read."""
    allow_small_segments(monkeypatch)
    monkeypatch.setitem(group_log._SETTINGS, "segment_bytes", "2048")
    disk = SimulatedDisk()
    async with running(disk.root, retention_check_ms=1) as (_, client):
        await client.create("orders")
        for offset in range(200):
            await client.commit(f"group{offset % 3}", offset)
        async with asyncio.timeout(10):
            while sum(map(len, log_files(disk).values())) > 3 * 2048:
                await asyncio.sleep(0)
        await client.commit("group0", 200)
        crashed = disk.after_crash("lost")
    assert any(path.endswith("groups.journal") for path in disk.files())
    assert not any(path.endswith("groups.journal") for path in crashed.files())
    for found in (disk, crashed):
        async with running(found.root) as (_, client):
            for group, offset in (("group0", 200), ("group1", 199), ("group2", 197)):
                assert await committed(client, group) == {"orders": offset}


async def described(client: RawClient, group: str) -> pb.DescribeGroupResponse:
    request = pb.DescribeGroupRequest(group=group)
    response, _ = await client.channel.call(calls.DESCRIBE_GROUP, request)
    return response


async def test_a_group_without_members_is_described_by_its_places() -> None:
    """R-DEL-10: with the end of each partition, where the broker that is asked leads it."""
    async with running() as (_, client):
        await client.create("orders", 2)
        await client.produce("orders", batch([b"1", b"2", b"3"]))
        await client.commit("billing", 2)
        found = await described(client, "billing")
        assert (found.group, found.kind, found.state) == ("billing", "classic", "Empty")
        [place] = found.places
        assert (place.topic, place.partition, place.offset) == ("orders", 0, 2)
        assert place.high_watermark == 3
        assert place.member_id == ""
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        assert not (await described(client, "billing")).places


async def test_a_deleted_group_has_no_place() -> None:
    async with running() as (_, client):
        await client.create("orders")
        await client.commit("billing", 2)
        request = pb.DeleteGroupRequest(group="billing")
        await client.channel.call(calls.DELETE_GROUP, request)
        assert await committed(client, "billing") == {}
        with pytest.raises(UnknownGroup, match="'billing'"):
            await client.channel.call(calls.DELETE_GROUP, request)
        with pytest.raises(UnknownGroup, match="'billing'"):
            await described(client, "billing")


def log_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {
        path: data
        for path, data in disk.files().items()
        if "__offsets" in path and path.endswith(".log")
    }
