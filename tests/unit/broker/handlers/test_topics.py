"""Topics: made, described, changed, deleted, routed; mistakes explained."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.client import connect
from penstock.model.error_codes import from_code
from penstock.model.errors import (
    DiskFull,
    InvalidConfig,
    InvalidPartitions,
    InvalidTopic,
    PenstockError,
    TooManyPartitions,
    TopicExists,
    UnknownTopic,
)
from penstock.model.limits import DELETED_TOPIC_STAYS_MS
from penstock.net.clock import SystemClock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import ManualClock, RawClient, batch, running
from tests.kit.simulated_disk import SimulatedDisk


async def metadata(
    client: RawClient, *topics: str, create_missing: bool = False, all_topics: bool = False
) -> pb.MetadataResponse:
    request = pb.MetadataRequest(
        topics=topics, create_missing=create_missing, all_topics=all_topics
    )
    response, _ = await client.channel.call(calls.METADATA, request)
    return response


async def alter(client: RawClient, topic: str, *reset: str, **changes: str) -> None:
    request = pb.AlterTopicRequest(name=topic, set=changes, reset=reset)
    await client.channel.call(calls.ALTER_TOPIC, request)


async def test_an_unknown_topic_is_made_on_first_use() -> None:
    """R-CORE-4: auto-creation."""
    async with running(partitions_default=3) as (broker, client):
        response = await metadata(client, "orders", create_missing=True)
        [topic] = response.topics
        assert [partition.leader for partition in topic.partitions] == [1, 1, 1]
        assert [broker.address for broker in response.brokers] == broker.addresses
        await client.produce("orders", batch([b"a"]), partition=2)


async def test_auto_creation_can_be_turned_off() -> None:
    """R-CORE-4: then an unknown topic is an error that says what to do."""
    async with running(auto_create_topics=False) as (_, client):
        response = await metadata(client, "orders", create_missing=True)
        error = from_code(response.topics[0].error.code, response.topics[0].error.message)
        assert isinstance(error, UnknownTopic)
        assert "topics create orders" in error.message
        assert "does not create topics itself" in error.message


async def test_routes_of_all_topics_and_of_unknown_ones() -> None:
    """R-CORE-5: any broker tells the routes."""
    async with running() as (_, client):
        await client.create("a")
        await client.create("b", partitions=2)
        everything = await metadata(client, all_topics=True)
        assert {topic.name: len(topic.partitions) for topic in everything.topics} == {
            "a": 1,
            "b": 2,
        }
        some = await metadata(client, "b", "nowhere")
        assert [topic.HasField("error") for topic in some.topics] == [False, True]


async def test_a_bad_name_among_several_hurts_only_itself() -> None:
    async with running() as (_, client):
        response = await metadata(client, "good", "not good", create_missing=True)
        assert [topic.error.code for topic in response.topics] == [0, InvalidTopic.code]


@pytest.mark.parametrize(
    ("name", "partitions", "settings", "error"),
    [
        ("orders", 1, {}, TopicExists),
        ("eleven", 11, {}, TooManyPartitions),
        ("a/b", 1, {}, InvalidTopic),
        ("", 1, {}, InvalidTopic),
        ("__mine", 1, {}, InvalidTopic),
        ("new", 1, {"retention_msec": "5"}, InvalidConfig),
        ("new", 1, {"durability": "maybe"}, InvalidConfig),
    ],
)
async def test_topics_that_cannot_be_made(
    name: str, partitions: int, settings: dict[str, str], error: type[PenstockError]
) -> None:
    """R-CORE-4: the eleventh partition is refused, and other mistakes."""
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(error):
            await client.create(name, partitions, **settings)
        assert len((await metadata(client, all_topics=True)).topics) == 1


async def test_the_tenth_partition_is_fine() -> None:
    async with running() as (_, client):
        await client.create("ten", partitions=10)
        with pytest.raises(TooManyPartitions, match="10 is the limit"):
            await client.channel.call(
                calls.ADD_PARTITIONS, pb.AddPartitionsRequest(name="ten", total=11)
            )


async def test_a_topic_describes_itself() -> None:
    async with running() as (_, client):
        await client.create("orders", partitions=2, durability="os")
        await client.produce("orders", batch([b"a", b"b"]), partition=1)
        described = await client.describe("orders")
        assert described.config["durability"] == "os"
        assert list(described.changed) == ["durability"]
        assert [partition.high_watermark for partition in described.partitions] == [0, 2]
        assert described.partitions[1].bytes > 0
        with pytest.raises(UnknownTopic):
            await client.describe("nowhere")


async def test_settings_change_at_once_and_survive_a_restart() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", retention_ms="1000")
        await alter(client, "orders", "retention_ms", batch_bytes_max="200")
        with pytest.raises(PenstockError, match="200"):
            await client.produce("orders", batch([b"x" * 500]))
        with pytest.raises(InvalidConfig, match="segment_bytes"):
            await alter(client, "orders", segment_byte="1")
        with pytest.raises(InvalidConfig):
            await alter(client, "orders", "retention")
    async with running(disk.root) as (_, client):
        assert list((await client.describe("orders")).changed) == ["batch_bytes_max"]


async def test_partitions_can_be_added_and_not_taken_away() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2)
        request = pb.AddPartitionsRequest(name="orders", total=4)
        await client.channel.call(calls.ADD_PARTITIONS, request)
        await client.produce("orders", batch([b"a"]), partition=3)
        request.total = 3
        with pytest.raises(InvalidPartitions):
            await client.channel.call(calls.ADD_PARTITIONS, request)
    async with running(disk.root) as (_, client):
        assert await client.values("orders", partition=3) == [b"a"]


async def test_a_deleted_topic_is_gone_and_can_be_made_again() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"old"]))
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="orders"))
        with pytest.raises(UnknownTopic):
            await client.produce("orders", batch([b"a"]))
        await client.create("orders")
        await client.produce("orders", batch([b"new"]))
        assert await client.values("orders") == [b"new"]
    assert not [path for path in disk.files() if path.startswith("trash/")]
    async with running(disk.root) as (_, client):
        assert await client.values("orders") == [b"new"]


async def test_internal_topics_cannot_be_changed() -> None:
    async with running() as (_, client):
        with pytest.raises(InvalidTopic):
            await alter(client, "__offsets", durability="os")
        with pytest.raises(InvalidTopic):
            await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name="__offsets"))


async def test_a_topic_without_room_for_it_is_not_made() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("first")
        disk.capacity_bytes = sum(map(len, disk.files().values()))
        with pytest.raises(DiskFull):
            await client.create("second")
        disk.capacity_bytes = None
        await client.create("second")


async def test_kafkas_settings_without_effect_are_kept_and_shown() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        request = pb.CreateTopicRequest(name="orders", config={"segment.jitter.ms": "5"})
        await client.channel.call(calls.CREATE_TOPIC, request)
        await alter(client, "orders", preallocate="true")
        with pytest.raises(InvalidConfig, match="true or false"):
            await alter(client, "orders", preallocate="maybe")
    async with running(disk.root) as (_, client):
        described = await client.describe("orders")
        assert described.config["segment_jitter_ms"] == "5"
        assert described.config["preallocate"] == "true"
        assert described.changed == ["preallocate", "segment_jitter_ms"]
        await alter(client, "orders", "preallocate", "segment-jitter-ms")
        assert "preallocate" not in (await client.describe("orders")).config


async def test_a_topic_is_described_while_it_grows() -> None:
    """A partition that is being made has no leader yet: it is never said not to exist."""
    async with running() as (_, client):
        await client.create("orders", partitions=1)
        growing = asyncio.create_task(_grow(client, "orders", 10))
        seen = 0
        while seen < 10:
            described = await client.describe("orders")
            seen = len(described.partitions)
            assert not [
                partition.error.message
                for partition in described.partitions
                if partition.leader == described.broker and partition.HasField("error")
            ]
        await growing


async def _grow(client: RawClient, topic: str, partitions: int) -> None:
    for total in range(2, partitions + 1):
        request = pb.AddPartitionsRequest(name=topic, total=total)
        await client.channel.call(calls.ADD_PARTITIONS, request)


async def test_a_deleted_topic_is_not_made_again_by_who_still_writes_to_it() -> None:
    """R-CORE-4: a producer of ours is told that it was deleted; after a while it may have one."""
    clock = ManualClock(SystemClock().now_ms())
    async with running(clock=clock) as (broker, _), connect(broker.addresses[0]) as mq:
        await mq.publish("orders", b"tea")
        await mq.admin.delete_topic("orders")
        with pytest.raises(UnknownTopic, match="'orders' was deleted"):
            await mq.publish("orders", b"more tea")
        await mq.admin.create_topic("orders")
        await mq.publish("orders", b"tea")
        await mq.admin.delete_topic("orders")
        clock.time_ms += DELETED_TOPIC_STAYS_MS
        await mq.publish("orders", b"tea again")


@pytest.mark.parametrize("passed_ms", [0, DELETED_TOPIC_STAYS_MS])
async def test_an_exclusive_topic_is_not_made_open_under_its_holder(passed_ms: int) -> None:
    """R-CORE-6: it was for one producer alone; one that everybody may write to is another."""
    clock = ManualClock(SystemClock().now_ms())
    async with running(clock=clock) as (broker, _), connect(broker.addresses[0]) as mq:
        async with mq.producer(exclusive="refuse", linger_ms=0) as holder:
            await holder.publish("ledger", b"first")
            await mq.admin.delete_topic("ledger")
            clock.time_ms += passed_ms
            with pytest.raises(UnknownTopic):
                await holder.publish("ledger", b"second")
        assert "ledger" not in [topic.name for topic in await mq.admin.list_topics()]
