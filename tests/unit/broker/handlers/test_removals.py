"""Why offsets are gone, over the wire (R-SPK-3)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import OffsetOutOfRange, UnknownTopic
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.storage.log.removals import REMOVALS_JOURNAL
from tests.kit.broker.kafka_client import connect
from tests.kit.broker.running import ManualClock, RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk

Told = tuple[int, int, str, int, str]


async def removals(client: RawClient, topic: str = "orders", partition: int = 0) -> list[Told]:
    request = pb.ListRemovalsRequest(topic=topic, partition=partition)
    response, _ = await client.channel.call(calls.LIST_REMOVALS, request)
    return [
        (one.first_offset, one.end_offset, one.cause, one.at_ms, one.detail)
        for one in response.removals
    ]


async def until_removed(client: RawClient, count: int) -> list[Told]:
    async with asyncio.timeout(10):
        while len(await removals(client)) < count:
            await asyncio.sleep(0)
    return await removals(client)


async def deleted(client: RawClient, name: str = "") -> list[pb.ListDeletedTopicsResponse.Topic]:
    request = pb.ListDeletedTopicsRequest(name=name)
    response, _ = await client.channel.call(calls.LIST_DELETED_TOPICS, request)
    return list(response.topics)


async def fill(client: RawClient, clock: ManualClock, count: int) -> None:
    for _ in range(count):
        await client.produce("orders", batch([b"x" * 16_000], timestamp_ms=clock.time_ms))
        clock.time_ms += 1000


@pytest.mark.parametrize("stop", ["clean", "crash"])
async def test_retention_is_explained_also_after_a_restart(stop: str) -> None:
    """R-CORE-3: which messages retention took, by which setting and when."""
    clock = ManualClock()
    disk = SimulatedDisk()
    async with running(disk.root, clock=clock, retention_check_ms=1) as (_, client):
        await client.create("orders", segment_bytes="70000", retention_ms="60000")
        await fill(client, clock, 20)
        assert await removals(client) == []
        clock.time_ms += 45_000
        by_time = (0, 4, "retention_time", clock.time_ms, "retention_ms is 60000")
        assert await until_removed(client, 1) == [by_time]
        await client.channel.call(
            calls.ALTER_TOPIC, pb.AlterTopicRequest(name="orders", set={"retention_bytes": "70000"})
        )
        by_size = (4, 16, "retention_size", clock.time_ms, "retention_bytes is 70000")
        assert await until_removed(client, 2) == [by_time, by_size]
        journal = f"topics/orders/0/{REMOVALS_JOURNAL}"
        async with asyncio.timeout(10):
            while b"retention_size" not in disk.after_crash("lost").files().get(journal, b""):
                await asyncio.sleep(0.001)
        crashed = disk.after_crash("lost")
    async with running((disk if stop == "clean" else crashed).root, clock=clock) as (_, client):
        assert await removals(client) == [by_time, by_size]
        message = (
            r"Offset 3 of orders-0 is gone, offsets 0 to 3 were removed by retention at "
            r"2023-11-14T22:14:25Z \(retention_ms is 60000\): the partition has 16 to 20; seek"
        )
        with pytest.raises(OffsetOutOfRange, match=message):
            await client.fetch("orders", 3)
        with pytest.raises(OffsetOutOfRange, match="Offset 21 is out of range"):
            await client.fetch("orders", 21)


async def test_a_deletion_of_records_is_explained() -> None:
    clock = ManualClock()
    async with running(clock=clock) as (broker, client):
        await client.create("orders", partitions=2)
        await client.produce("orders", batch([b"a", b"b", b"c"]), partition=1)
        kafka = await connect(broker)
        wanted = DeleteRecordsTopic("orders", [DeleteRecordsPartition(1, 2)])
        await kafka.call(apis.DELETE_RECORDS, 2, DeleteRecordsRequest([wanted]))
        await kafka.close()
        assert await removals(client, partition=0) == []
        told = (0, 2, "deleted", clock.time_ms, "everything before offset 2 was to go")
        assert await removals(client, partition=1) == [told]


async def test_what_a_crash_tore_is_explained() -> None:
    """R-STO-6: also to a consumer that had read it, where the topic's durability is `os`."""
    clock = ManualClock()
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", durability="os")
        for _ in range(2):
            await client.produce("orders", batch([b"x" * 200, b"y"]))
        crashed = disk.after_crash("kept")
    (path,) = (path for path in crashed.files() if "orders" in path and path.endswith(".log"))
    del crashed._find(path).data[-50:]
    async with running(crashed.root, clock=clock) as (_, client):
        ((*told, detail),) = await removals(client)
        assert told == [2, 4, "truncated", clock.time_ms]
        assert "a crash tore the end of the log" in detail
        with pytest.raises(OffsetOutOfRange, match="offsets 2 to 3 were cut off at 2023-"):
            await client.fetch("orders", 4)


async def test_a_deleted_topic_is_remembered() -> None:
    clock = ManualClock()
    disk = SimulatedDisk()
    async with running(disk.root, clock=clock) as (_, client):
        await client.create("orders", partitions=2)
        await client.create("events")
        await client.produce("orders", batch([b"a", b"b", b"c"]), partition=1)
        topic_id = (await client.describe("orders")).id
        assert await deleted(client) == []
        for name in ("orders", "events"):
            await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name=name))
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (_, client):
        orders, events = await deleted(client)
        assert await deleted(client, "orders") == [orders]
        assert await deleted(client, "nothing") == []
    assert (orders.name, orders.id, orders.at_ms) == ("orders", topic_id, clock.time_ms)
    ends = [(one.partition, one.start_offset, one.end_offset) for one in orders.partitions]
    assert ends == [(0, 0, 0), (1, 0, 3)]
    assert events.name == "events"


async def test_an_unknown_partition_is_an_error() -> None:
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(UnknownTopic):
            await removals(client, "orders", 1)
        with pytest.raises(UnknownTopic):
            await removals(client, "nowhere", 0)
