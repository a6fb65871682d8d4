"""Produce: acknowledged when it should be, refused with what to do, never twice."""

from __future__ import annotations

import asyncio

import pytest

from penstock.model.errors import (
    BatchTooLarge,
    CorruptBatch,
    DiskFull,
    InvalidBatch,
    InvalidRequest,
    InvalidTopic,
    OutOfOrderSequence,
    PenstockError,
    StorageFailed,
    UnknownTopic,
)
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import ManualClock, batch, running
from tests.kit.simulated_disk import SimulatedDisk


@pytest.mark.parametrize("durability", ["os", "fsync"])
@pytest.mark.parametrize("acks", [1, -1])
async def test_what_is_acknowledged_can_be_read(durability: str, acks: int) -> None:
    """R-PRO-1, R-CORE-1: offsets rise by one in a partition."""
    async with running() as (_, client):
        await client.create("orders", durability=durability)
        first = await client.produce("orders", batch([b"a", b"b"]), acks=acks)
        second = await client.produce("orders", batch([b"c"]), acks=acks)
        assert (first.base_offset, second.base_offset) == (0, 2)
        assert await client.values("orders") == [b"a", b"b", b"c"]


async def test_acks_0_is_not_answered_but_kept() -> None:
    """R-PRO-1: acks 0."""
    async with running() as (_, client):
        await client.create("orders")
        answers: list[PenstockError | None] = []
        envelope = pb.ProduceRequest(topic="orders", acks=0).SerializeToString()
        client.channel.start_call(
            calls.PRODUCE.number,
            envelope,
            [batch([b"a"])],
            lambda error, _envelope, _payload: answers.append(error),
        )
        await client.produce("orders", batch([b"b"]))
        assert await client.values("orders") == [b"a", b"b"]
        assert answers == []


async def test_acks_0_is_answered_when_it_fails() -> None:
    async with running() as (_, client):
        with pytest.raises(UnknownTopic):
            await client.produce("nowhere", batch([b"a"]), acks=0)


async def test_append_time_is_the_brokers() -> None:
    clock = ManualClock()
    async with running(clock=clock) as (_, client):
        await client.create("orders", timestamp_type="append")
        response = await client.produce("orders", batch([b"a"], timestamp_ms=5))
        [message] = await client.fetch("orders")
        assert response.append_time_ms == message.timestamp_ms == clock.time_ms
        assert message.timestamp_type == "append"


async def test_a_retry_makes_no_duplicate() -> None:
    """R-PRO-2: producer id, epoch and sequence are checked by the broker."""
    async with running() as (_, client):
        await client.create("orders")
        first = await client.produce("orders", batch([b"a"], producer=(7, 0, 0)))
        again = await client.produce("orders", batch([b"a"], producer=(7, 0, 0)))
        assert (first.base_offset, first.duplicate) == (0, False)
        assert (again.base_offset, again.duplicate) == (0, True)
        with pytest.raises(OutOfOrderSequence):
            await client.produce("orders", batch([b"c"], producer=(7, 0, 2)))
        assert await client.values("orders") == [b"a"]


@pytest.mark.parametrize("stop", ["clean", "crash"])
async def test_a_retry_after_a_restart_makes_no_duplicate(stop: str) -> None:
    """R-PRO-2: the window of five batches survives a restart, also one without a goodbye."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        for sequence in range(8):
            await client.produce("orders", batch([b"%d" % sequence], producer=(7, 0, sequence)))
        crashed = disk.after_crash("lost")
    async with running((disk if stop == "clean" else crashed).root) as (_, client):
        for sequence in range(3, 8):
            again = await client.produce(
                "orders", batch([b"%d" % sequence], producer=(7, 0, sequence))
            )
            assert (again.base_offset, again.duplicate) == (sequence, True)
        await client.produce("orders", batch([b"8"], producer=(7, 0, 8)))
        assert await client.values("orders") == [b"%d" % number for number in range(9)]


@pytest.mark.parametrize(
    ("topic", "payload", "acks", "error", "says"),
    [
        ("nowhere", batch([b"a"]), 1, UnknownTopic, "topics create nowhere"),
        ("__offsets", batch([b"a"]), 1, InvalidTopic, "broker's own"),
        ("orders", batch([b"a"]), 2, InvalidRequest, "0, 1 or -1"),
        ("orders", b"", 1, InvalidBatch, "cut off"),
        ("orders", b"garbage" * 20, 1, InvalidBatch, "format 2"),
        ("orders", batch([b"a"])[:-1], 1, InvalidBatch, "says it has"),
        ("orders", batch([b"a"])[:-1] + b"?", 1, CorruptBatch, "damaged on the way"),
        ("orders", batch([b"a"]) + b"tail", 1, InvalidBatch, "one batch a call"),
        ("orders", batch([b"a"]) + batch([b"b"]), 1, InvalidBatch, "one batch a call"),
        ("orders", batch([b"a" * 2_000_000]), 1, BatchTooLarge, "batch_bytes_max"),
    ],
)
async def test_what_cannot_be_accepted_is_refused_and_leaves_nothing(
    topic: str, payload: bytes, acks: int, error: type[PenstockError], says: str
) -> None:
    """Bad CRC, oversized batches, unknown topics: a typed error that says what to do."""
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(error, match=says):
            await client.produce(topic, payload, acks=acks)
        assert (await client.produce("orders", batch([b"b"]))).base_offset == 0


async def test_a_full_disk_refuses_and_loses_nothing() -> None:
    """Disk full: a typed, retriable error; what was acknowledged stays; room brings it back."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"a"], producer=(7, 0, 0)))
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        with pytest.raises(DiskFull, match="free some room") as caught:
            await client.produce("orders", batch([b"b"], producer=(7, 0, 1)))
        assert caught.value.retriable
        assert await client.values("orders") == [b"a"]
        disk.capacity_bytes = None
        response = await client.produce("orders", batch([b"b"], producer=(7, 0, 1)))
        assert (response.base_offset, response.duplicate) == (1, False)
    async with running(disk.root) as (_, client):
        assert await client.values("orders") == [b"a", b"b"]


async def test_a_failed_flush_makes_the_partition_read_only_and_says_so() -> None:
    """A flush that failed is never retried as a success."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", partitions=2)
        await client.produce("orders", batch([b"a"]))
        disk.fail_next("flush")
        for value in (b"b", b"c"):
            with pytest.raises(StorageFailed, match="read-only") as told:
                await client.produce("orders", batch([value]))
            assert str(told.value) == (
                "Broker 1 takes nothing more for orders-0, of which it has the only copy: The "
                "partition is read-only since a flush failed. The disk failed, flushing "
                "disk/topics/orders/0: Input/output error; check the disk. When the disk is well, "
                "restart the broker; what was acknowledged is there."
            )
        assert await client.values("orders") == [b"a"]
        assert await client.values("orders", partition=1) == []
        await client.produce("orders", batch([b"d"]), partition=1)
        described = await client.describe("orders")
        assert "read-only" in described.partitions[0].error.message
        assert not described.partitions[1].HasField("error")


async def test_producer_ids_differ() -> None:
    async with running() as (_, client):
        ids = set()
        for _ in range(3):
            response, _ = await client.channel.call(calls.INIT_PRODUCER, pb.InitProducerRequest())
            ids.add(response.producer_id)
        assert len(ids) == 3


async def test_padded_envelopes_are_understood_but_not_remembered() -> None:
    """R-NET-3: unknown fields are ignored, and cost no memory."""
    async with running() as (_, client):
        await client.create("orders")
        padding = b"\x9a\x06\xd0\x0f" + bytes(2000)  # field 99, 2,000 bytes
        envelope = pb.ProduceRequest(topic="orders", acks=-1).SerializeToString() + padding
        answered = asyncio.get_running_loop().create_future()
        client.channel.start_call(
            calls.PRODUCE.number,
            envelope,
            [batch([b"a"])],
            lambda error, _envelope, _payload: answered.set_result(error),
        )
        assert await answered is None
        assert await client.values("orders") == [b"a"]
