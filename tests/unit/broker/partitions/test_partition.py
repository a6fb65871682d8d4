"""A partition follows its topic's settings, from the first batch on and when they change."""

from __future__ import annotations

import pytest

from penstock.broker.partitions.partition import Append, Partition
from penstock.broker.partitions.readers import Wakings
from penstock.coordination.producers.state import UNKNOWN_OFFSET, ProducerState
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    InvalidBatch,
    InvalidTimestamp,
    NotEnoughReplicas,
    PenstockError,
    UnknownProducer,
)
from penstock.model.ids import TopicPartition
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.model.topic_config import TopicConfig
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder
from penstock.records.compression import Codec
from penstock.records.header import read_header
from tests.kit.broker.running import ManualClock, RawClient, batch, running
from tests.kit.replication.replica import PARTITION, One
from tests.kit.simulated_disk import SimulatedDisk


async def alter(client: RawClient, **changes: str) -> None:
    request = pb.AlterTopicRequest(name="orders", set=changes)
    await client.channel.call(calls.ALTER_TOPIC, request)


async def test_settings_hold_as_soon_as_they_change() -> None:
    clock = ManualClock()
    async with running(clock=clock) as (_, client):
        await client.create("orders")
        await client.produce("orders", batch([b"x" * 200], timestamp_ms=clock.time_ms))
        await alter(client, batch_bytes_max="200")
        with pytest.raises(BatchTooLarge, match="larger than the 200"):
            await client.produce("orders", batch([b"x" * 200]))
        await alter(client, timestamp_type="append")
        response = await client.produce("orders", batch([b"a"], timestamp_ms=5))
        assert response.append_time_ms == clock.time_ms
        await alter(client, cleanup_policy="compact")
        with pytest.raises(InvalidBatch, match="no key"):
            await client.produce("orders", batch([b"a"]))


async def test_a_time_is_held_against_the_clock_as_it_goes_on() -> None:
    """The limit is remembered: it only grows, and is looked up again where it does not do."""
    clock = ManualClock()
    async with running(clock=clock) as (_, client):
        await client.create("orders")
        for _ in range(3):
            for allowed_ms in (clock.time_ms, clock.time_ms + 3_600_000):
                await client.produce("orders", batch([b"a"], timestamp_ms=allowed_ms))
            late = batch([b"a"], timestamp_ms=clock.time_ms + 3_600_001)
            with pytest.raises(InvalidTimestamp, match="3600001 ms after"):
                await client.produce("orders", late)
            clock.time_ms += 7_200_000


async def test_a_lone_leader_does_not_satisfy_a_minimum_of_two() -> None:
    """R-REP-3: acks=all is refused; the other producers are served."""
    async with running() as (_, client):
        await client.create("orders", min_insync_replicas="2")
        with pytest.raises(NotEnoughReplicas, match=r"1 of its replicas in sync .* is 2") as caught:
            await client.produce("orders", batch([b"a"]), acks=-1)
        assert caught.value.retriable
        await client.produce("orders", batch([b"b"]), acks=1)
        await alter(client, min_insync_replicas="1")
        await client.produce("orders", batch([b"c"]), acks=-1)
        assert await client.values("orders") == [b"b", b"c"]


async def test_what_is_compressed_anew_is_on_the_disk_and_not_twice() -> None:
    """R-PRO-2 holds where the broker changes what it was sent."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", compression_type="zstd")
        builder = BatchBuilder(1 << 20, codec=Codec.GZIP)
        for _ in range(10):
            builder.append(1_000, None, b"tea" * 100)
        sent = bytes(builder.build(producer_id=7, producer_epoch=0, base_sequence=0))
        first = await client.produce("orders", bytearray(sent))
        again = await client.produce("orders", bytearray(sent))
        assert (first.base_offset, again.base_offset, again.duplicate) == (0, 0, True)
        assert await client.values("orders") == [b"tea" * 100] * 10
    [stored] = [data for name, data in disk.files().items() if name.endswith(".log")]
    assert read_header(stored).codec == Codec.ZSTD


class Told(Append):
    __slots__ = ("outcomes",)

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[PenstockError | None] = []

    def finished(self, error: PenstockError | None) -> None:
        self.outcomes.append(error)


def test_a_repetition_whose_place_is_forgotten_is_answered_when_all_is_committed() -> None:
    """R-PRO-2: it is in the log, but perhaps no majority has it yet."""
    one = One()
    known = ProducerState()
    for number in range(6):
        header = read_header(batch([b"a"], producer=(5, 0, number)))
        known.record(header, number, 0)
    cut = known.before(0)
    assert cut is not None
    topic = TopicPartition("orders", 0)
    partition = Partition(
        topic,
        PARTITION.topic_id,
        TopicConfig(),
        one.replica,
        lambda: cut,
        one.clock,
        Wakings(lambda turn: turn()),
    )
    one.lead()
    told = Told()
    partition.append(memoryview(batch([b"new"])), Told())
    partition.append(memoryview(batch([b"a"], producer=(5, 0, 0))), told)
    one.driver.end_turn()
    one.flusher.run_all()
    assert (told.duplicate, told.outcomes) == (True, [])
    one.answer(2)
    assert told.outcomes == [None]
    assert told.base_offset == UNKNOWN_OFFSET


def made_anew(one: One) -> Partition:
    """A partition of a topic that had the name of another before, on its leader."""
    partition = Partition(
        TopicPartition("orders", 0),
        PARTITION.topic_id,
        TopicConfig(),
        one.replica,
        ProducerState,
        one.clock,
        Wakings(lambda turn: turn()),
    )
    partition.sequences.has_namesake = lambda: True
    one.lead()
    return partition


def test_any_number_of_producers_go_on_in_a_topic_that_was_made_anew() -> None:
    """R-PRO-2: each sends again when all of them have been sent away once."""
    partition = made_anew(One())
    data = batch([b"a"], producer=(0, 0, 3))
    headers = [read_header(data)._replace(producer_id=number) for number in range(3_000)]
    for header in headers:
        with pytest.raises(Busy):
            partition.sequences.append(header, memoryview(data), Told())
    for header in headers:
        partition.sequences.append(header, memoryview(data), Told())
    assert len(partition.producers) == 3_000


def test_copies_of_what_was_staged_never_begin_in_the_middle() -> None:
    """R-SPK-2: others go on in a topic that was made anew; whoever sends these begins anew."""
    partition = made_anew(One())

    def append(producer_id: int) -> None:
        data = batch([b"a"], producer=(producer_id, 0, 3))
        partition.sequences.append(read_header(data), memoryview(data), Told())

    with pytest.raises(Busy):
        append(5)
    append(5)
    for _ in range(2):
        with pytest.raises(UnknownProducer):
            append(COPY_PRODUCER_ID_MIN)
