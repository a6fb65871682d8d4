"""Disks that fail, races that hurt, calls that bloat: each was found once, and stays mended."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from penstock.broker.broker import Broker
from penstock.broker.partitions.folders import TopicFolders
from penstock.model.errors import PenstockError, StorageError, StorageFailed
from penstock.model.topic_config import TopicConfig
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import CONFIG, RawClient, allow_small_segments, batch, running
from tests.kit.simulated_disk import SimulatedCrash, SimulatedDisk, SimulatedFile


async def committed(client: RawClient, group: str) -> list[int]:
    request = pb.FetchOffsetsRequest(group=group)
    response, _ = await client.channel.call(calls.FETCH_OFFSETS, request)
    return [offset.offset for offset in response.offsets]


async def delete(client: RawClient, topic: str) -> None:
    await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name=topic))


async def add_partitions(client: RawClient, total: int) -> None:
    request = pb.AddPartitionsRequest(name="orders", total=total)
    await client.channel.call(calls.ADD_PARTITIONS, request)


# --- what was acknowledged ---------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["clean", "killed"])
async def test_an_empty_segments_name_is_durable_before_its_first_ack(stop: str) -> None:
    """R-STO-6: made in one life, written to in the next, then the machine stops."""
    disk = SimulatedDisk()
    with contextlib.suppress(SimulatedCrash):
        async with running(disk.root) as (_, client):
            await client.create("orders")
            disk.crashed = stop == "killed"
    disk.restart_process()
    async with running(disk.root) as (_, client):
        await client.produce("orders", batch([b"a"]))
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (_, client):
        assert await client.values("orders") == [b"a"]


async def test_a_topics_folders_are_durable_before_its_first_ack() -> None:
    """R-STO-6: killed at each step of a creation, started again, written to; then power goes."""
    operation = 0
    while True:
        operation += 1
        disk = SimulatedDisk()
        with contextlib.suppress(SimulatedCrash, PenstockError):
            async with running(disk.root) as (_, client):
                disk.crash_at(len(disk.operations) + operation)
                await client.create("orders", partitions=2)
                return
        disk.restart_process()
        async with running(disk.root) as (_, client):
            with contextlib.suppress(PenstockError):
                await client.create("orders", partitions=2)
            await client.produce("orders", batch([b"a"]), partition=1)
            crashed = disk.after_crash("lost")
        async with running(crashed.root) as (_, client):
            assert await client.values("orders", 1) == [b"a"], operation


async def test_a_restart_does_not_make_a_failed_flush_a_success() -> None:
    """What the kernel still has in its cache after a failed flush is not taken for durable."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"], producer=(7, 0, 0)))
        disk.fail_next("flush")
        with pytest.raises(StorageFailed):
            await client.produce("orders", batch([b"b"], producer=(7, 0, 1)))
    async with running(disk.root) as (_, client):
        again = await client.produce("orders", batch([b"b"], producer=(7, 0, 1)))
        assert not again.duplicate
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (_, client):
        assert await client.values("orders") == [b"a", b"b"]


async def test_group_offsets_are_durable_whatever_the_default() -> None:
    """R-DEL-10: with topics that are not flushed by default, group offsets still are."""
    disk = SimulatedDisk()
    async with running(disk.root, topic_defaults=TopicConfig(durability="os")) as (_, client):
        await client.create("orders")
        await client.commit("old", 5)
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (_, client):
        assert await committed(client, "old") == [5]


async def test_a_snapshot_ahead_of_a_shortened_log_is_not_believed_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-PRO-2: the log lost its end with the machine, and has grown that far again since."""
    allow_small_segments(monkeypatch)
    disk = SimulatedDisk()
    async with running(disk.root, retention_check_ms=1) as (_, client):
        await client.create("orders", durability="os", segment_bytes="1024", retention_ms="-1")
        for sequence in range(8):
            await client.produce("orders", batch([b"x" * 300], producer=(5, 0, sequence)))
        async with asyncio.timeout(10):
            while "topics/orders/0/producers.journal" not in disk.files():
                await asyncio.sleep(0)
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (_, client):
        await client.produce("orders", batch([b"y"], producer=(6, 0, 0)))
        for _ in range(20):
            await client.produce("orders", batch([b"z"]))
        again = crashed.after_crash("kept")
    async with running(again.root) as (_, client):
        assert (await client.produce("orders", batch([b"y"], producer=(6, 0, 0)))).duplicate


async def test_a_deletion_that_was_refused_does_not_happen_later() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        disk.fail_next("flush folder")
        with pytest.raises(StorageError):
            await delete(client, "orders")
        await client.produce("orders", batch([b"b"]))
        crashed = disk.after_crash("kept")
    async with running(crashed.root) as (_, client):
        assert await client.values("orders") == [b"a", b"b"]


async def test_a_topic_made_again_does_not_inherit_what_groups_had_read() -> None:
    """R-DEL-10: not at once, and not after a restart."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a", b"b"]))
        await client.commit("billing", 2)
        await delete(client, "orders")
        assert await committed(client, "billing") == []
        await client.create("orders")
        assert await committed(client, "billing") == []
    async with running(disk.root) as (_, client):
        assert await committed(client, "billing") == []
        await client.commit("billing", 0)
        assert await committed(client, "billing") == [0]


# --- what must not hang or stop ----------------------------------------------------------------


async def test_less_durability_while_a_flush_runs_answers_who_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = threading.Event()
    real_flush = SimulatedFile.flush

    def flush_when_allowed(self: SimulatedFile) -> None:
        if ".log" in self.path:
            gate.wait(10)
        real_flush(self)

    async with running() as (_, client):
        await client.create("orders")
        monkeypatch.setattr(SimulatedFile, "flush", flush_when_allowed)
        first = asyncio.create_task(client.produce("orders", batch([b"a"])))
        second = asyncio.create_task(client.produce("orders", batch([b"b"])))
        request = pb.AlterTopicRequest(name="orders", set={"durability": "os"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        async with asyncio.timeout(5):
            await asyncio.gather(first, second)
        gate.set()


async def test_damaged_group_offsets_do_not_keep_the_broker_from_starting() -> None:
    """And nobody is told to begin anew: offsets are refused until the topic is mended."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        for offset in range(5):
            await client.commit("billing", offset)
        crashed = disk.after_crash("lost")
    [path] = [path for path in crashed.files() if "__offsets" in path and path.endswith(".log")]
    crashed.flip_bit(path, 100, 3)
    async with running(crashed.root) as (_, client):
        assert await client.values("orders") == [b"a"]
        with pytest.raises(StorageFailed, match="Groups cannot be served"):
            await committed(client, "billing")
        with pytest.raises(StorageFailed):
            await client.commit("billing", 0)


async def test_partitions_that_could_not_be_made_can_be_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        disk.fail_next("create")
        with pytest.raises(StorageError):
            await add_partitions(client, 3)
        assert len((await client.describe("orders")).partitions) == 1
        disk.fail_next("flush")
        with pytest.raises(StorageError):
            await add_partitions(client, 3)
        assert len((await client.describe("orders")).partitions) == 1
        with pytest.raises(PenstockError):
            await client.produce("orders", batch([b"a"]), partition=2)
        await add_partitions(client, 3)
        await client.produce("orders", batch([b"a"]), partition=2)


async def test_a_deletion_that_failed_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2, durability="os")
        await client.produce("orders", batch([b"a"]))

        def fail(self: TopicFolders, topic: str) -> None:
            raise StorageFailed(f"no trash for {topic}")

        with monkeypatch.context() as failing:
            failing.setattr(TopicFolders, "move_to_trash", fail)
            with pytest.raises(StorageFailed, match="no trash"):
                await delete(client, "orders")
        await delete(client, "orders")
        await client.create("orders")
        assert await client.values("orders") == []


async def test_strange_things_among_the_topics_are_left_alone(tmp_path: Path) -> None:
    config = replace(CONFIG, data=str(tmp_path))
    async with Broker(config):
        pass
    (tmp_path / "topics" / ".DS_Store").write_bytes(b"x")
    (tmp_path / "topics" / "not a topic").mkdir()
    async with Broker(config) as broker:
        assert broker.addresses


async def test_a_log_cut_short_by_somebody_else_is_an_answer_not_a_hang() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.create("other")
        await client.produce("orders", batch([b"a" * 100]))
        [path] = [path for path in disk.files() if "orders/0" in path]
        del disk._find(path).data[80:]
        async with asyncio.timeout(5):
            with pytest.raises(StorageError):
                await client.fetch("orders")
        await client.produce("other", batch([b"b"]))


# --- what must not bloat -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        (calls.METADATA, pb.MetadataRequest(topics=["t"] * 10_001)),
        (
            calls.COMMIT_OFFSETS,
            pb.CommitOffsetsRequest(
                group="g", offsets=[pb.GroupOffset(topic="orders", offset=1)] * 10_001
            ),
        ),
    ],
    ids=["metadata", "commit"],
)
async def test_a_call_cannot_ask_for_everything_at_once(call: object, request_: object) -> None:
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(PenstockError, match="10000 is the limit"):
            await client.channel.call(call, request_)  # type: ignore[type-var, arg-type]


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -2, 2**62, 2**63 - 1])
async def test_a_time_out_of_this_world_is_refused(timestamp_ms: int) -> None:
    data = batch([b"a"])
    data[35:43] = timestamp_ms.to_bytes(8, "big", signed=True)
    data[17:21] = crc32c(data[21:]).to_bytes(4, "big")
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(PenstockError, match="milliseconds since 1970"):
            await client.produce("orders", data)
