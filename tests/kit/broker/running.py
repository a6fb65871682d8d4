"""What tests of the broker share: a broker on a simulated disk, and a client that speaks frames."""

from __future__ import annotations

import contextlib
import sys
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from penstock.broker.broker import Broker
from penstock.broker.config import BrokerConfig
from penstock.model import topic_config
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.net.clock import Clock
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.raft.membership import Node
from penstock.records import BatchBuilder, Message, decode_messages
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher
from penstock.replication.replica.transport import TIMING, NoPeers, Surroundings
from penstock.storage.files.files import Directory
from tests.kit.simulated_disk import SimulatedDisk

CONFIG = BrokerConfig(listen=("127.0.0.1:0",), flush_threads=1)


def allow_small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages make several segments; users may not have them so small."""
    monkeypatch.setitem(topic_config._RANGES, "segment_bytes", (1, 2**31 - 1))


def peak_bytes(work: Callable[[], object]) -> int:
    """The most memory that the work held at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def lines_run(work: Callable[[], object]) -> int:
    """How many lines of Python the work takes: as good as its time, and always the same."""
    count = 0

    def look(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return look

    before = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


class ManualClock:
    """Wall time in the test's hands."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic(self) -> float:
        return self.time_ms / 1000


def alone(driver: Driver, flusher: Flusher, clock: Clock) -> Surroundings:
    """Of the replicas of a broker on its own."""
    return Surroundings(
        me=Node(1, 7),
        driver=driver,
        flusher=flusher,
        clock=clock,
        peers=NoPeers(),
        timing=TIMING,
        draw_delay_ms=lambda: 0,
    )


class RawClient:
    """Speaks the protocol call by call."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel

    async def create(self, topic: str, partitions: int = 1, **settings: str) -> None:
        request = pb.CreateTopicRequest(name=topic, partitions=partitions, config=settings)
        await self.channel.call(calls.CREATE_TOPIC, request)

    async def produce(
        self, topic: str, batch: bytes | bytearray, *, partition: int = 0, acks: int = -1
    ) -> pb.ProduceResponse:
        request = pb.ProduceRequest(topic=topic, partition=partition, acks=acks)
        response, _ = await self.channel.call(calls.PRODUCE, request, [batch])
        return response

    async def fetch(
        self,
        topic: str,
        offset: int = 0,
        *,
        partition: int = 0,
        max_bytes: int = 1 << 20,
        min_bytes: int = 0,
        max_wait_ms: int = 0,
    ) -> list[Message]:
        request = pb.FetchRequest(
            topic=topic,
            partition=partition,
            offset=offset,
            max_bytes=max_bytes,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
        )
        _, payload = await self.channel.call(calls.FETCH, request)
        return decode_messages(payload, topic, partition, offset)

    async def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """Everything in the partition, read to its end."""
        messages: list[Message] = []
        while more := await self.fetch(
            topic, messages[-1].offset + 1 if messages else 0, partition=partition
        ):
            messages += more
        assert [message.offset for message in messages] == list(range(len(messages)))
        return [message.value for message in messages]

    async def commit(self, group: str, offset: int, topic: str = "orders") -> None:
        committed = pb.GroupOffset(topic=topic, partition=0, offset=offset, metadata="note")
        request = pb.CommitOffsetsRequest(group=group, offsets=[committed])
        await self.channel.call(calls.COMMIT_OFFSETS, request)

    async def describe(self, topic: str) -> pb.DescribeTopicResponse:
        request = pb.DescribeTopicRequest(name=topic)
        response, _ = await self.channel.call(calls.DESCRIBE_TOPIC, request)
        return response


def batch(
    values: Sequence[bytes | None],
    *,
    timestamp_ms: int = 1_000,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytearray:
    """A batch of these values; producer id, epoch and first sequence if it is to be idempotent."""
    builder = BatchBuilder(1 << 22)
    for value in values:
        assert builder.append(timestamp_ms, None, value) >= 0
    producer_id, producer_epoch, base_sequence = producer
    return bytearray(
        builder.build(
            producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence
        )
    )


@contextlib.asynccontextmanager
async def running(
    disk: Directory | None = None,
    config: BrokerConfig = CONFIG,
    clock: Clock | None = None,
    **settings: object,
) -> AsyncIterator[tuple[Broker, RawClient]]:
    """A broker and a client of it. On a fresh simulated disk unless one is given."""
    changed: BrokerConfig = replace(config, **settings)  # type: ignore[arg-type]
    broker = Broker(changed, disk=disk or SimulatedDisk().root, clock=clock)
    async with broker:
        channel = await connect_channel(parse_address(broker.addresses[0]))
        try:
            yield broker, RawClient(channel)
        finally:
            channel.close()


@contextlib.asynccontextmanager
async def another_client(broker: Broker) -> AsyncIterator[RawClient]:
    """One more client of a broker that runs, on a connection of its own."""
    channel = await connect_channel(parse_address(broker.addresses[0]))
    try:
        yield RawClient(channel)
    finally:
        channel.close()
