"""Why messages are gone, by the public client against a real broker that is killed in between."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

import penstock
from penstock import Client
from penstock.client.admin.topics import GroupLag
from penstock.model.errors import OffsetOutOfRange
from penstock.model.removal import DeletedPartition, Removal
from tests.kit.processes.brokers import BrokerProcess
from tests.system.clients import PATIENCE_S

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
VALUE = b"x" * 16_000


async def fill(mq: Client, count: int, *, timestamp_ms: int | None = None) -> None:
    """Messages of which four fill a segment."""
    for _ in range(count):
        await mq.publish("orders", VALUE, partition=0, timestamp_ms=timestamp_ms)


async def until_gone(mq: Client, offset: int) -> list[Removal]:
    """What is told when the log begins at the offset or later."""
    async with asyncio.timeout(PATIENCE_S):
        while await mq.admin.find_offset("orders", 0, "earliest") < offset:
            await asyncio.sleep(0.01)
    return await mq.admin.removals("orders", 0)


async def until_durable(data: Path, cause: str) -> None:
    journal = data / "topics" / "orders" / "0" / "removals.journal"
    async with asyncio.timeout(PATIENCE_S):
        while not (journal.exists() and cause.encode() in journal.read_bytes()):
            await asyncio.sleep(0.01)


def described(address: str, *flags: str) -> str:
    command = [PENSTOCK, "topics", "describe", "orders", "--bootstrap", address, *flags]
    return subprocess.run(
        command, capture_output=True, check=True, timeout=PATIENCE_S, text=True
    ).stdout


def delete_records(address: str, offset: int) -> None:
    """By a real Kafka client: the native protocol has no such call."""
    admin = AdminClient({"bootstrap.servers": address})
    (deletion,) = admin.delete_records([TopicPartition("orders", 0, offset)]).values()
    deletion.result(PATIENCE_S)


async def test_what_retention_and_people_took_is_explained(tmp_path: Path) -> None:
    """R-CORE-3, R-SPK-3: which offsets, by which setting, when; also after a SIGKILL."""
    begun_ms = time.time_ns() // 1_000_000
    with BrokerProcess(tmp_path, "retention_check_ms=50") as broker:
        async with penstock.connect(broker.address) as mq:
            settings = {"segment_bytes": "70000", "retention_ms": "3600000"}
            await mq.admin.create_topic("orders", 1, settings)
            await fill(mq, 4, timestamp_ms=begun_ms - 7_200_000)
            await fill(mq, 16)
            (by_time,) = await until_gone(mq, 4)
            assert (by_time.first_offset, by_time.end_offset) == (0, 4)
            assert (by_time.cause, by_time.detail) == ("retention_time", "retention_ms is 3600000")
            assert begun_ms <= by_time.at_ms <= time.time_ns() // 1_000_000
            await asyncio.to_thread(delete_records, broker.address, 6)
            _, deleted = await until_gone(mq, 6)
            assert (deleted.first_offset, deleted.end_offset, deleted.cause) == (4, 6, "deleted")
            await mq.admin.alter_topic("orders", {"retention_bytes": "140000"})
            removals = await until_gone(mq, 12)
            assert [one.cause for one in removals[:3]] == [
                "retention_time",
                "deleted",
                "retention_size",
            ]
            assert [one.end_offset for one in removals[:-1]] == [
                one.first_offset for one in removals[1:]
            ], "every offset once"
            assert removals[-1].end_offset == await mq.admin.find_offset("orders", 0, "earliest")
            await until_durable(tmp_path, "retention_size")
        broker.kill()
        broker.start()
        async with penstock.connect(broker.address) as mq:
            assert await mq.admin.removals("orders", 0) == removals
            with pytest.raises(OffsetOutOfRange) as caught:
                [columns async for columns in mq.read_range("orders", 0, 2, 8)]
            assert "offsets 0 to 3 were removed by retention at 20" in str(caught.value)
            assert "(retention_ms is 3600000)" in str(caught.value)
        told = json.loads(described(broker.address, "--json"))["removals"]
        assert [(one["first"], one["last"]) for one in told] == [
            (one.first_offset, one.end_offset - 1) for one in removals
        ]
        assert "retention_ms is 3600000" in described(broker.address)


async def test_deleted_topics_are_remembered(tmp_path: Path) -> None:
    """Also when one of the same name is made again, and after a SIGKILL."""
    with BrokerProcess(tmp_path) as broker:
        async with penstock.connect(broker.address) as mq:
            ids = []
            for count in (3, 5):
                ids.append((await mq.admin.create_topic("orders", 2)).topic_id)
                await fill(mq, count)
                await mq.admin.delete_topic("orders")
            await mq.admin.create_topic("orders", 1)
            assert "gone" not in described(broker.address)
        broker.kill()
        broker.start()
        async with penstock.connect(broker.address) as mq:
            first, second = await mq.admin.deleted_topics("orders")
            assert [first.topic_id, second.topic_id] == ids
            assert first.partitions == (DeletedPartition(0, 0, 3), DeletedPartition(1, 0, 0))
            assert second.partitions == (DeletedPartition(0, 0, 5), DeletedPartition(1, 0, 0))
            assert first.at_ms <= second.at_ms <= time.time_ns() // 1_000_000
            assert await mq.admin.deleted_topics() == [first, second]
            assert await mq.admin.deleted_topics("events") == []
            assert await mq.admin.removals("orders", 0) == []


def test_without_an_event_loop(penstock_broker: str, penstock_topic: str) -> None:
    """R-SPK-3: lag per group, and which groups read a topic."""
    topic = penstock_topic
    with penstock.connect_blocking(penstock_broker) as mq:
        mq.admin.create_topic(topic, 2)
        for _ in range(5):
            mq.publish(topic, b"value", partition=1)
        mq.admin.commit_offsets(f"{topic} billing", {(topic, 1): 2})
        mq.admin.commit_offsets(f"{topic} audit", {(topic, 0): 0, (topic, 1): 5})
        assert mq.admin.topic_groups(topic) == {
            f"{topic} audit": {0: 0, 1: 5},
            f"{topic} billing": {1: 2},
        }
        assert mq.admin.group_lag(f"{topic} billing") == [
            GroupLag(topic=topic, partition=1, committed=2, log_start=0, end=5, lag=3)
        ]
        assert [lag.lag for lag in mq.admin.group_lag(f"{topic} audit")] == [0, 0]
        assert mq.admin.removals(topic, 1) == []
        mq.admin.delete_topic(topic)
        (deleted,) = mq.admin.deleted_topics(topic)
        assert deleted.partitions == (DeletedPartition(0, 0, 0), DeletedPartition(1, 0, 5))
