"""After a disk has failed: what is committed stays readable, nothing comes back that was refused,
and the broker can still be stopped."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import threading
from collections.abc import AsyncIterator

import pytest

from penstock.broker.broker import Broker
from penstock.broker.groups import log as group_log
from penstock.coordination.group import coordinator
from penstock.model.errors import PenstockError, StorageError, StorageFailed
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.embedded import EmbeddedRegistry
from tests.kit.broker.running import ManualClock, RawClient, allow_small_segments, batch, running
from tests.kit.simulated_disk import SimulatedDirectory, SimulatedDisk, SimulatedFile


class Gate:
    """Holds up the flush of some files until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, part_of_path: str) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        real_flush = SimulatedFile.flush

        def flush(file: SimulatedFile) -> None:
            if part_of_path in file.path:
                self.reached.set()
                self.open.wait(10)
            real_flush(file)

        monkeypatch.setattr(SimulatedFile, "flush", flush)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 5)


@contextlib.asynccontextmanager
async def stopping_in_time(
    shutdown_timeout_ms: int = 10_000,
) -> AsyncIterator[tuple[Broker, RawClient]]:
    """A broker that must not hang when it is stopped."""
    life = running(shutdown_timeout_ms=shutdown_timeout_ms)
    yield await life.__aenter__()
    async with asyncio.timeout(5):
        await life.__aexit__(None, None, None)


# --- stopping ----------------------------------------------------------------------------------


async def test_a_snapshot_on_its_way_does_not_hang_the_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_log, "_SNAPSHOT_RECORDS", 3)
    async with stopping_in_time() as (_, client):
        await client.create("orders")
        for offset in range(2):
            await client.commit("g", offset)
        gate = Gate(monkeypatch, "__offsets")
        committing = asyncio.create_task(client.commit("g", 3))
        await gate.until_reached()
        asyncio.get_running_loop().call_later(0.1, gate.open.set)
        await committing


@pytest.mark.parametrize("what", ["commit", "deletion"])
async def test_a_late_call_does_not_hang_the_stop(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    async with stopping_in_time(shutdown_timeout_ms=50) as (_, client):
        await client.create("orders")
        await client.commit("g", 0)
        gate = Gate(monkeypatch, ".log")
        late = [asyncio.create_task(client.produce("orders", batch([b"a"])))]
        await gate.until_reached()
        if what == "commit":
            late.append(asyncio.create_task(client.commit("g", 1)))  # type: ignore[arg-type]
        else:
            request = pb.DeleteTopicRequest(name="orders")
            deleting = client.channel.call(calls.DELETE_TOPIC, request)
            late.append(asyncio.create_task(deleting))  # type: ignore[arg-type]
        await client.describe("orders")
        asyncio.get_running_loop().call_later(0.3, gate.open.set)
    await asyncio.gather(*late, return_exceptions=True)


# --- reading and restarting after a failure ----------------------------------------------------


@pytest.mark.parametrize("where", ["active", "folder"])
async def test_a_flush_that_fails_after_sealing_costs_no_committed_message(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """R-STO-6: what the job had sealed stays whole, and the partition opens again."""
    allow_small_segments(monkeypatch)
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", segment_bytes="1024", retention_ms="-1")
        await client.produce("orders", batch([b"a" * 300]))
        real_rename = SimulatedDirectory.rename

        def rename_then_fail(self: SimulatedDirectory, old: str, new: str) -> None:
            real_rename(self, old, new)
            if ".open.log" in old:
                disk.fail_next("flush folder" if where == "folder" else "flush")

        with monkeypatch.context() as failing:
            failing.setattr(SimulatedDirectory, "rename", rename_then_fail)
            values = [bytes([98 + number]) * 300 for number in range(5)]
            producing = [client.produce("orders", batch([value])) for value in values]
            outcomes = await asyncio.gather(*producing, return_exceptions=True)
        assert any(isinstance(outcome, StorageFailed) for outcome in outcomes)
        before = await client.values("orders")
        described = await client.describe("orders")
        assert len(before) == described.partitions[0].high_watermark
    async with running(disk.root) as (_, client):
        assert (await client.values("orders"))[: len(before)] == before
        await client.produce("orders", batch([b"goes on"]))


@pytest.mark.parametrize("call", ["fetch", "find"])
async def test_what_is_committed_can_be_read_after_a_failed_flush(call: str) -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        for number in range(3):
            await client.produce("orders", batch([b"%d" % number], timestamp_ms=1000))
    async with running(disk.root) as (_, client):
        disk.fail_next("flush")
        with pytest.raises(StorageFailed):
            await client.produce("orders", batch([b"b"], timestamp_ms=5000))
        if call == "fetch":
            assert await client.values("orders") == [b"0", b"1", b"2"]
        else:
            request = pb.FindOffsetRequest(topic="orders", timestamp_ms=2000)
            response, _ = await client.channel.call(calls.FIND_OFFSET, request)
            assert response.offset == 3


async def test_less_durability_does_not_bring_back_what_was_cut() -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        disk.fail_next("flush")
        with pytest.raises(StorageFailed):
            await client.produce("orders", batch([b"b"]))
        request = pb.AlterTopicRequest(name="orders", set={"durability": "os"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        assert (await client.describe("orders")).partitions[0].high_watermark == 1
        assert await client.values("orders") == [b"a"]


async def test_a_flush_that_ends_well_after_the_log_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"]))
        gate = Gate(monkeypatch, "orders")
        first = asyncio.create_task(client.produce("orders", batch([b"b"])))
        await gate.until_reached()
        disk.fail_next("append", errno.EIO)
        disk.fail_next("truncate", errno.EIO)
        with pytest.raises(StorageError):
            await client.produce("orders", batch([b"c"]))
        gate.open.set()
        with contextlib.suppress(StorageError):
            await first
        described = await client.describe("orders")
        assert len(await client.values("orders")) == described.partitions[0].high_watermark


# --- going on where something was refused ------------------------------------------------------


async def test_retention_goes_on_where_no_segment_can_be_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleting is what makes room."""
    allow_small_segments(monkeypatch)
    clock = ManualClock()
    async with running(retention_check_ms=1, clock=clock) as (_, client):
        hour_ms = 3_600_000
        settings = {"retention_ms": str(hour_ms), "segment_ms": str(hour_ms)}
        await client.create("orders", 1, segment_bytes="1024", **settings)
        for _ in range(9):
            await client.produce("orders", batch([b"x" * 300], timestamp_ms=clock.now_ms()))
        real_open = SimulatedDirectory.open

        def open_on_a_full_disk(
            self: SimulatedDirectory, name: str, *, create: bool = False
        ) -> SimulatedFile:
            if create and name.endswith(".open.log"):
                raise OSError(errno.ENOSPC, "full")
            return real_open(self, name, create=create)

        monkeypatch.setattr(SimulatedDirectory, "open", open_on_a_full_disk)
        clock.time_ms += 2 * hour_ms
        async with asyncio.timeout(10):
            while not (await client.describe("orders")).partitions[0].log_start_offset:
                await asyncio.sleep(0)


async def test_partitions_that_the_registry_may_refuse_are_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    may_refuse, asked = threading.Event(), threading.Event()

    def refuse(self: EmbeddedRegistry, payload: bytes) -> None:
        asked.set()
        may_refuse.wait(5)
        raise StorageFailed("no")

    async with running() as (_, client):
        await client.create("orders")
        monkeypatch.setattr(EmbeddedRegistry, "_replace_journal", refuse)
        request = pb.AddPartitionsRequest(name="orders", total=2)
        adding = asyncio.create_task(client.channel.call(calls.ADD_PARTITIONS, request))
        assert await asyncio.to_thread(asked.wait, 5)
        with pytest.raises(PenstockError):
            await client.produce("orders", batch([b"a"]), partition=1)
        may_refuse.set()
        with pytest.raises(StorageFailed):
            await adding


async def test_groups_go_on_at_the_limit_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "GROUP_OFFSETS_MAX", 3)
    async with running() as (_, client):
        await client.create("orders")
        for group in "abc":
            await client.commit(group, 0)
        await client.commit("a", 1)
        with pytest.raises(PenstockError, match="no more"):
            await client.commit("d", 0)


async def test_what_a_restart_will_delete_is_not_written_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deletion was refused, but could not be undone in the registry either."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        real_flush = SimulatedDirectory.flush

        def fail_twice(self: SimulatedDirectory) -> None:
            monkeypatch.setattr(SimulatedDirectory, "flush", real_flush)
            disk.fail_next("append", errno.EIO)
            raise OSError(errno.EIO, "bad")

        monkeypatch.setattr(SimulatedDirectory, "flush", fail_twice)
        request = pb.DeleteTopicRequest(name="orders")
        with pytest.raises(StorageError):
            await client.channel.call(calls.DELETE_TOPIC, request)
        with pytest.raises(PenstockError):
            await client.produce("orders", batch([b"b"]))
        await client.channel.call(calls.DELETE_TOPIC, request)
        await client.create("orders")
        await client.produce("orders", batch([b"new"]))
    async with running(disk.root) as (_, client):
        assert await client.values("orders") == [b"new"]
