"""A crash at the disk operations of a whole broker's life: first start, topics, producing, offsets,
retention, deletion, orderly stop, second start.

The checker after each: every acknowledged fact holds (messages at their offsets, once and without a
gap; what a producer sent is recognised when it comes again; group offsets; topics and settings),
what was under way happened wholly or not at all, and the broker takes new work.

Flushes and registry writes run on threads and housekeeping on a timer, so the operation with a
certain number is not the same one in every run. The promises are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from penstock.model.errors import OffsetOutOfRange, UnknownTopic
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import (
    RawClient,
    allow_small_segments,
    batch,
    running,
)
from tests.kit.crashes import WAYS, Workload, crash_everywhere, found_after
from tests.kit.simulated_disk import SimulatedDisk

pytestmark = pytest.mark.usefixtures("quiet")

# So that a segment holds two batches.
SEGMENT_BYTES = 1024
VALUE_BYTES = 300
BATCH_BYTES_MAX = VALUE_BYTES + 100
RETENTION_BYTES = 2000
# What a broker promises to recognise of each producer.
PRODUCER_WINDOW = 5

# The process crashes alone, and the machine later: the turn after those of the machine alone.
PROCESS_TURN = len(WAYS)
# Each way takes every seventh operation, and no two ways the same: more than half have their turn.
STRIDE = 7


@dataclass
class Sent:
    """A batch of one message on its way into a partition."""

    value: bytes
    sequence: int
    offset: int | None = None
    """Where the broker said it is, once it has."""


@dataclass
class Facts:
    """What the broker has promised so far, and what it was asked for without an answer yet."""

    producer_id: int = -1
    topics: dict[str, int] = field(default_factory=dict)
    """How many partitions each has."""
    settings: dict[str, str] = field(default_factory=dict)
    """Those of "orders"."""
    deleted: set[str] = field(default_factory=set)
    changing: str = ""
    """The topic that is being created, changed or deleted."""
    sent: dict[tuple[str, int], list[Sent]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    committing: dict[str, int] = field(default_factory=dict)


class LifeStory(Workload):
    """Two lives of a broker with everything in them that a client can ask for."""

    def __init__(self, disk: SimulatedDisk) -> None:
        super().__init__(disk)
        self.facts = Facts()

    async def check(self) -> None:
        async with broker_on(self.disk) as client:
            await check(client, self.facts)

    async def live(self) -> None:
        await self._first_life()
        await self._second_life()

    async def _first_life(self) -> None:
        async with broker_on(self.disk) as client:
            self.facts.producer_id = await new_producer_id(client)
            await self._create(client, "orders", 2, segment_bytes=str(SEGMENT_BYTES))
            await self._produce(client, "orders", 4)
            await self._commit(client, "billing", 3)
            await self._alter(client, {"index_interval_bytes": "256", "segment_ms": "1000000"})
            await self._create(client, "doomed", 1)
            await self._produce(client, "doomed", 2)
            await self._add_partition(client)
            await self._produce(client, "orders", 2)
            await self._create(
                client,
                "short",
                1,
                segment_bytes=str(SEGMENT_BYTES),
                retention_bytes=str(RETENTION_BYTES),
            )
            await self._produce(client, "short", 8)
            await self._until_something_is_deleted(client)
            await self._delete(client, "doomed")
            await self._create(client, "idle", 1)
            await self._commit(client, "billing", 6)

    async def _second_life(self) -> None:
        async with broker_on(self.disk) as client:
            await self._produce(client, "idle", 2)
            await self._produce(client, "orders", 2)
            await self._commit(client, "shipping", 1)
            await self._create(client, "doomed", 1)
            await self._produce(client, "doomed", 2)

    async def _create(
        self, client: RawClient, topic: str, partitions: int, **settings: str
    ) -> None:
        self.facts.changing = topic
        settings["retention_ms"] = "-1"  # the messages of these tests are from 1970
        await client.create(topic, partitions, **settings)
        self.facts.changing = ""
        self.facts.deleted.discard(topic)
        self.facts.topics[topic] = partitions
        if topic == "orders":
            self.facts.settings |= settings

    async def _alter(self, client: RawClient, settings: dict[str, str]) -> None:
        self.facts.changing = "orders"
        request = pb.AlterTopicRequest(name="orders", set=settings)
        await client.channel.call(calls.ALTER_TOPIC, request)
        self.facts.changing = ""
        self.facts.settings |= settings

    async def _add_partition(self, client: RawClient) -> None:
        self.facts.changing = "orders"
        total = self.facts.topics["orders"] + 1
        request = pb.AddPartitionsRequest(name="orders", total=total)
        await client.channel.call(calls.ADD_PARTITIONS, request)
        self.facts.changing = ""
        self.facts.topics["orders"] = total

    async def _delete(self, client: RawClient, topic: str) -> None:
        self.facts.changing = topic
        await client.channel.call(calls.DELETE_TOPIC, pb.DeleteTopicRequest(name=topic))
        self.facts.changing = ""
        self.facts.deleted.add(topic)
        del self.facts.topics[topic]
        self.facts.sent = {at: sent for at, sent in self.facts.sent.items() if at[0] != topic}

    async def _produce(self, client: RawClient, topic: str, count: int) -> None:
        """So many to each partition, to all at once, with two on their way in each."""
        for _ in range(count // 2):
            partitions = [*range(self.facts.topics[topic])] * 2
            await asyncio.gather(
                *(produce(client, self.facts, topic, partition) for partition in partitions)
            )

    async def _commit(self, client: RawClient, group: str, offset: int) -> None:
        self.facts.committing[group] = offset
        await commit(client, group, offset)
        self.facts.committed[group] = offset

    async def _until_something_is_deleted(self, client: RawClient) -> None:
        async with asyncio.timeout(10):
            while not (await client.describe("short")).partitions[0].log_start_offset:
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def broker_on(disk: SimulatedDisk) -> AsyncIterator[RawClient]:
    async with running(disk.root, retention_check_ms=1, shutdown_timeout_ms=10) as (_, client):
        yield client


async def produce(client: RawClient, facts: Facts, topic: str, partition: int) -> None:
    """Send the next message of the partition's producer, and note what the broker promises."""
    all_sent = facts.sent.setdefault((topic, partition), [])
    text = f"{topic}-{partition}: {len(all_sent)}.".encode()
    sent = Sent(value=text.ljust(VALUE_BYTES, b"x"), sequence=len(all_sent))
    all_sent.append(sent)
    response = await send(client, facts, topic, partition, sent)
    assert not response.duplicate
    sent.offset = response.base_offset


async def send(
    client: RawClient, facts: Facts, topic: str, partition: int, sent: Sent
) -> pb.ProduceResponse:
    produced = batch([sent.value], producer=(facts.producer_id, 0, sent.sequence))
    assert len(produced) <= BATCH_BYTES_MAX
    return await client.produce(topic, produced, partition=partition)


async def new_producer_id(client: RawClient) -> int:
    response, _ = await client.channel.call(calls.INIT_PRODUCER, pb.InitProducerRequest())
    return response.producer_id


async def commit(client: RawClient, group: str, offset: int) -> None:
    offsets = [pb.GroupOffset(topic="orders", partition=0, offset=offset)]
    request = pb.CommitOffsetsRequest(group=group, offsets=offsets)
    await client.channel.call(calls.COMMIT_OFFSETS, request)


# --- the checker ---------------------------------------------------------------------------------


async def check(client: RawClient, facts: Facts) -> None:
    """Every promise is kept."""
    for topic, partitions in facts.topics.items():
        if await may_be_gone(client, facts, topic):
            continue
        described = await client.describe(topic)
        assert not [partition for partition in described.partitions if partition.HasField("error")]
        if topic != facts.changing:
            assert len(described.partitions) == partitions, topic
            if topic == "orders":
                assert facts.settings.items() <= dict(described.config).items()
    for topic in facts.deleted - {facts.changing}:
        assert not await exists(client, topic), topic
    for (topic, partition), all_sent in facts.sent.items():
        if not await may_be_gone(client, facts, topic):
            await check_partition(client, topic, partition, all_sent)
    await check_groups(client, facts)


async def may_be_gone(client: RawClient, facts: Facts, topic: str) -> bool:
    """Its deletion was under way, and the topic is not there."""
    return topic == facts.changing and not await exists(client, topic)


async def exists(client: RawClient, topic: str) -> bool:
    try:
        await client.describe(topic)
    except UnknownTopic:
        return False
    return True


async def check_partition(
    client: RawClient, topic: str, partition: int, all_sent: list[Sent]
) -> None:
    """Offsets without a gap, what was acknowledged where it was, everything at most once."""
    start_offset, found = await read_partition(client, topic, partition)
    acknowledged = {sent.offset: sent.value for sent in all_sent if sent.offset is not None}
    kept = len(acknowledged)
    if topic == "short":
        # Retention takes whole segments, and none that would leave less than the limit.
        kept = (RETENTION_BYTES - SEGMENT_BYTES) // BATCH_BYTES_MAX
    assert start_offset <= max(len(acknowledged) - kept, 0), (topic, partition)
    for at, value in acknowledged.items():
        assert at < start_offset or found.get(at) == value, (topic, partition, at)
    assert len(set(found.values())) == len(found), (topic, partition)
    assert set(found.values()) <= {sent.value for sent in all_sent}, (topic, partition)


async def read_partition(
    client: RawClient, topic: str, partition: int
) -> tuple[int, dict[int, bytes | None]]:
    """Where it begins, and the values by their offsets. Retention, which looks every millisecond,
    may take the beginning away under the reader: then once more."""
    while True:
        start_offset = (await client.describe(topic)).partitions[partition].log_start_offset
        found: dict[int, bytes | None] = {}
        offset = start_offset
        try:
            while messages := await client.fetch(topic, offset, partition=partition):
                end_offset = offset + len(messages)
                assert [message.offset for message in messages] == list(range(offset, end_offset))
                found |= {message.offset: message.value for message in messages}
                offset = end_offset
        except OffsetOutOfRange:
            assert offset < (await client.describe(topic)).partitions[partition].log_start_offset
        else:
            return start_offset, found


async def check_groups(client: RawClient, facts: Facts) -> None:
    for group, committing in facts.committing.items():
        request = pb.FetchOffsetsRequest(group=group)
        response, _ = await client.channel.call(calls.FETCH_OFFSETS, request)
        found = response.offsets[0].offset if response.offsets else None
        assert found in (facts.committed.get(group), committing), group


async def settle(client: RawClient, facts: Facts) -> None:
    """From now on it is certain what became of the change that was under way."""
    topic, facts.changing = facts.changing, ""
    if topic and await exists(client, topic):
        facts.topics[topic] = len((await client.describe(topic)).partitions)
        facts.deleted.discard(topic)
        facts.sent.setdefault((topic, 0), [])
    elif topic:
        facts.topics.pop(topic, None)
        facts.deleted.add(topic)
        facts.sent.pop((topic, 0), None)


async def go_on(client: RawClient, facts: Facts) -> None:
    """What had no answer is sent again, and so is what had one; then there is new work."""
    for (topic, partition), all_sent in facts.sent.items():
        for sent in all_sent[-PRODUCER_WINDOW:]:
            response = await send(client, facts, topic, partition, sent)
            assert sent.offset in (None, response.base_offset), (topic, partition)
            sent.offset = response.base_offset
        await produce(client, facts, topic, partition)
    assert await new_producer_id(client) > facts.producer_id
    if "orders" in facts.topics:
        facts.committed["billing"] = facts.committing["billing"] = 40
        await commit(client, "billing", 40)
    await client.create("new")
    await client.produce("new", batch([b"new"]))
    assert await client.values("new") == [b"new"]


# --- the crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("turn", range(PROCESS_TURN + 1))
async def test_a_crash_at_an_operation(turn: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-STO-6, R-PRO-2, R-DEL-10: at any moment, and whatever the disk kept of what was not
    flushed. Each way to crash has its own sample of the operations."""
    allow_small_segments(monkeypatch)

    async def recover(story: LifeStory, operation: int) -> None:
        if turn == PROCESS_TURN:
            await check_process_then_machine(story.disk, story.facts)
        else:
            await check_machine(found_after(story.disk, turn, operation), story.facts)

    await crash_everywhere(LifeStory, turn, recover, stride=STRIDE)


async def check_machine(found: SimulatedDisk, facts: Facts) -> None:
    async with broker_on(found) as client:
        await check(client, facts)
        await settle(client, facts)
        await go_on(client, facts)
    async with broker_on(found) as client:
        await check(client, facts)


async def check_process_then_machine(disk: SimulatedDisk, facts: Facts) -> None:
    """What the second process finds in the kernel's cache alone, names of files and folders too,
    it has to make durable before it promises anything that rests on it."""
    disk.restart_process()
    async with broker_on(disk) as client:
        await check(client, facts)
        await settle(client, facts)
        await go_on(client, facts)
        found = disk.after_crash("lost")
    async with broker_on(found) as client:
        await check(client, facts)
