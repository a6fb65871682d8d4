"""Compaction through the broker: topics with `cleanup_policy=compact`, in the background."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder
from penstock.records.view import batches
from penstock.storage.compaction import cleaning
from penstock.storage.compaction.cleaning import read_batches
from penstock.storage.segments.recovery import CLEANED_NAME
from tests.kit.broker.running import ManualClock, RawClient, allow_small_segments, running
from tests.kit.simulated_disk import SimulatedDisk

SETTINGS = {
    "cleanup_policy": "compact",
    "segment_bytes": "2000",
    "min_cleanable_dirty_ratio": "0.3",
}


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_small_segments(monkeypatch)


@contextlib.asynccontextmanager
async def compacting(
    disk: SimulatedDisk, clock: ManualClock | None = None
) -> AsyncIterator[tuple[Broker, RawClient]]:
    async with running(disk.root, clock=clock or ManualClock(), retention_check_ms=1) as pair:
        yield pair


async def create(client: RawClient, topic: str = "state", **changes: str) -> None:
    request = pb.CreateTopicRequest(name=topic, partitions=1, config=SETTINGS | changes)
    await client.channel.call(calls.CREATE_TOPIC, request)


async def produce(
    client: RawClient,
    key: bytes,
    value: bytes | None,
    *,
    topic: str = "state",
    sequence: int | None = None,
) -> None:
    builder = BatchBuilder(1 << 20)
    builder.append(1_700_000_000_000, key, value)
    if sequence is None:
        batch = builder.build()
    else:
        batch = builder.build(producer_id=7, producer_epoch=0, base_sequence=sequence)
    await client.produce(topic, batch)


async def contents(
    client: RawClient, topic: str = "state"
) -> list[tuple[bytes | None, bytes | None]]:
    """Everything in the partition, read to its end across gaps."""
    partition = (await client.describe(topic)).partitions[0]
    found: list[tuple[bytes | None, bytes | None]] = []
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        request = pb.FetchRequest(topic=topic, offset=offset, max_bytes=1 << 20)
        _, payload = await client.channel.call(calls.FETCH, request)
        for batch in batches(payload):
            found += [(record.key, record.value) for record in batch.records()]
            offset = batch.header.next_offset
    return found


async def until_few(
    client: RawClient, count: int, topic: str = "state"
) -> list[tuple[bytes | None, bytes | None]]:
    """The contents when no more than so many are left."""
    async with asyncio.timeout(10):
        while len(found := await contents(client, topic)) > count:
            await asyncio.sleep(0)
    return found


async def fill(client: RawClient, count: int = 60, topic: str = "state") -> None:
    for number in range(count):
        await produce(client, b"%d" % (number % 5), b"%d" % number * 50, topic=topic)


async def another_is_compacted(client: RawClient) -> None:
    """Every partition was looked at until then."""
    await create(client, "another")
    await fill(client, topic="another")
    await until_few(client, 25, "another")


async def test_a_compacted_topic_keeps_the_latest_of_each_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """R-CORE-3: by key, and after a restart too."""
    caplog.set_level(logging.INFO)
    disk = SimulatedDisk()
    async with compacting(disk) as (_, client):
        await create(client)
        await fill(client)
        found = await until_few(client, 25)
        latest = dict(found)
        assert latest == {b"%d" % (number % 5): b"%d" % number * 50 for number in range(55, 60)}
    assert "is compacted up to offset" in caplog.text
    async with compacting(disk) as (_, client):
        assert dict(await contents(client)) == latest
    assert not any(CLEANED_NAME in path for path in disk.files())


async def test_other_topics_are_not_compacted() -> None:
    disk = SimulatedDisk()
    async with compacting(disk) as (_, client):
        await create(client, cleanup_policy="delete")
        await fill(client)
        await another_is_compacted(client)
        assert len(await contents(client)) == 60


async def test_a_compacted_topic_is_not_deleted_by_age() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    async with compacting(disk, clock) as (_, client):
        await create(client, retention_ms="1")
        await fill(client)
        clock.time_ms += 10_000_000
        found = await until_few(client, 25)
        assert len(dict(found)) == 5
        assert (await client.describe("state")).partitions[0].log_start_offset == 0


async def test_with_both_policies_old_segments_go_as_well() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    async with compacting(disk, clock) as (_, client):
        await create(client, cleanup_policy="compact,delete", retention_ms="60000")
        await fill(client)
        await until_few(client, 25)
        clock.time_ms += 70_000
        async with asyncio.timeout(10):
            while (await client.describe("state")).partitions[0].log_start_offset < 50:
                await asyncio.sleep(0)


async def test_a_producers_sequence_survives_the_compaction_of_its_batches() -> None:
    """R-PRO-2: a retry is recognised after compaction and a restart that had to read the log."""
    disk = SimulatedDisk()
    async with compacting(disk) as (_, client):
        await create(client)
        await produce(client, b"0", b"idempotent", sequence=0)
        await fill(client)
        await until_few(client, 25)
    for path in list(disk.files()):
        if path.endswith(("producers.journal", "clean.journal")):
            folder, _, name = path.rpartition("/")
            directory = disk.root
            for part in folder.split("/") if folder else []:
                directory = directory.subdirectory(part)
            directory.remove(name)
    async with compacting(disk) as (_, client):
        before = (await client.describe("state")).partitions[0].high_watermark
        await produce(client, b"0", b"idempotent", sequence=0)
        assert (await client.describe("state")).partitions[0].high_watermark == before


async def test_a_topic_can_be_deleted_and_made_again_at_any_time() -> None:
    disk = SimulatedDisk()
    async with compacting(disk) as (_, client):
        for _ in range(5):
            await create(client)
            await fill(client, 40)
            request = pb.DeleteTopicRequest(name="state")
            await client.channel.call(calls.DELETE_TOPIC, request)
        await create(client)
        assert await contents(client) == []


async def test_a_topic_that_is_compacted_no_longer_is_left_alone_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is taken out after its owner has said that all of it is to stay."""
    caplog.set_level(logging.INFO)
    begun, changed = threading.Event(), threading.Event()

    def read_later(*arguments: Any) -> Any:
        begun.set()
        changed.wait(10)
        return read_batches(*arguments)

    monkeypatch.setattr(cleaning, "read_batches", read_later)
    async with compacting(SimulatedDisk()) as (_, client):
        await create(client)
        await fill(client)
        async with asyncio.timeout(10):
            while not begun.is_set():
                await asyncio.sleep(0)
            request = pb.AlterTopicRequest(name="state", set={"cleanup_policy": "delete"})
            await client.channel.call(calls.ALTER_TOPIC, request)
            changed.set()
            while "is given up" not in caplog.text:
                await asyncio.sleep(0)
        assert len(await contents(client)) == 60


async def test_a_damaged_log_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    async with compacting(disk) as (_, client):
        await create(client, cleanup_policy="delete")
        await fill(client, 20)
        sealed = min(path for path in disk.files() if path.endswith(".log"))
        disk.flip_bit(sealed, 100, 1)
        request = pb.AlterTopicRequest(name="state", set={"cleanup_policy": "compact"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        async with asyncio.timeout(10):
            while "could not be compacted" not in caplog.text:
                await asyncio.sleep(0)
        await another_is_compacted(client)
    assert caplog.text.count("could not be compacted") == 1
