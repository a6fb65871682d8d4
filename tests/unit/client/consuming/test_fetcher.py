"""Fetching ahead: bounded, without gap or repeat, through failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.client.client import Client
from penstock.client.config import ClientConfig
from penstock.client.connection.links import Links
from penstock.client.connection.routes import Routes
from penstock.client.consuming.batch_feed import BatchFeed, Chunk
from penstock.client.consuming.fetcher import Fetcher
from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.consuming.starts import OutOfRange
from penstock.client.reading.asked import AskedSource
from penstock.model.errors import (
    Busy,
    ClientClosed,
    CorruptLog,
    InvalidBatch,
    InvalidFilter,
    NotLeader,
    OffsetOutOfRange,
    PenstockError,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.model.ids import TopicPartition
from penstock.net.address import parse_address
from penstock.protocol import penstock_pb2 as pb
from penstock.records import build_batch, decode_messages
from tests.kit.client.damaged_batches import batches
from tests.kit.client.fake_broker import BREAK, HOLD, Action, FakeBroker, FakePartition

FETCH = pb.CALL_FETCH
ORDERS = TopicPartition("orders", 0)


def append(partition: FakePartition, count: int = 1, size_bytes: int = 100) -> None:
    """Batches of one message each."""
    for _ in range(count):
        partition.append(memoryview(build_batch([(None, b"x" * size_bytes)])))


class Bench:
    def __init__(self, broker: FakeBroker) -> None:
        config = ClientConfig(retry_backoff_ms=1, retry_backoff_ms_max=2)
        self.broker = broker
        self.config = config
        self.links = Links([parse_address(broker.address)], config)
        self.routes = Routes(self.links, config)
        self.fetcher = self.make()

    def make(
        self,
        *,
        buffer_bytes: int = 10_000,
        on_out_of_range: OutOfRange = "earliest",
        filter_: str | None = None,
    ) -> Fetcher:
        self.fetcher = Fetcher(
            AskedSource(self.routes, self.config),
            ConsumerConfig(
                buffer_bytes=buffer_bytes, on_out_of_range=on_out_of_range, filter=filter_
            ),
        )
        return self.fetcher

    @property
    def feed(self) -> BatchFeed:
        return self.fetcher.feeds[ORDERS]

    async def chunk(self) -> Chunk:
        async with asyncio.timeout(5):
            while (chunk := self.fetcher.take()) is None:
                self.fetcher.raise_failure()
                await self.fetcher.wait()
        return chunk

    async def read_to(self, end: int) -> list[tuple[int, int]]:
        """The ranges of offsets that come, until the end."""
        ranges: list[tuple[int, int]] = []
        while not ranges or ranges[-1][1] < end:
            chunk = await self.chunk()
            ranges.append((chunk.start_offset, chunk.next_offset))
        return ranges


@pytest.fixture
async def bench(broker: FakeBroker) -> AsyncIterator[Bench]:
    broker.create("orders", 1)
    bench = Bench(broker)
    yield bench
    await bench.fetcher.close()
    await bench.routes.close()
    await bench.links.close()


def is_gapless(ranges: list[tuple[int, int]], start: int, end: int) -> bool:
    edges = [start, *(edge for pair in ranges for edge in pair), end]
    return all(left == right for left, right in zip(edges[::2], edges[1::2], strict=True))


async def test_it_long_polls_and_never_spins(broker: FakeBroker, bench: Bench) -> None:
    """R-DEL-6: one question waits at the broker until there is something."""
    await bench.fetcher.add({ORDERS: "earliest"})
    await broker.until(lambda: broker.count(FETCH) == 1)
    for _ in range(50):
        await asyncio.sleep(0)
    assert broker.count(FETCH) == 1
    (request,) = [request for number, request in broker.calls if number == FETCH]
    assert (request.min_bytes, request.max_wait_ms) == (1, 5000)


async def test_an_empty_answer_before_its_time_is_not_asked_again_at_once(
    broker: FakeBroker, bench: Bench
) -> None:
    """A broker that does not hold the question must not be asked in a busy loop."""
    bench.config = ClientConfig(retry_backoff_ms=60_000, retry_backoff_ms_max=60_000)
    bench.make()
    broker.holds_polls = False
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: bench.feed.supply.failures == 2)
    for _ in range(50):
        await asyncio.sleep(0)
    assert broker.count(FETCH) == 2, "the first retry is at once, the second waits"


async def test_it_fetches_ahead_up_to_the_bound(broker: FakeBroker, bench: Bench) -> None:
    bench.make(buffer_bytes=200_000)
    append(broker.topics["orders"][0], 100, size_bytes=9_000)
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: bench.feed.fetch_offset > 20)
    for _ in range(50):
        await asyncio.sleep(0)
    ahead = bench.feed.fetch_offset
    assert ahead < 50, "the bound, and at most one answer beyond it"
    ranges = await bench.read_to(100)
    assert is_gapless(ranges, 0, 100)


@pytest.mark.parametrize(
    "action", [BREAK, NotLeader(), Busy(), UnknownTopic("For a moment.")], ids=str
)
async def test_failures_leave_no_gap(broker: FakeBroker, bench: Bench, action: Action) -> None:
    """R-STO-2, R-CORE-5: never repeats or skips, and finds the leader again."""
    append(broker.topics["orders"][0], 60, size_bytes=9_000)
    broker.script[FETCH].extend([action, action, "done", action, "done"])
    await bench.fetcher.add({ORDERS: 0})
    assert is_gapless(await bench.read_to(60), 0, 60)


async def test_a_restart_is_survived(broker: FakeBroker, bench: Bench) -> None:
    append(broker.topics["orders"][0], 3)
    await bench.fetcher.add({ORDERS: 0})
    await bench.read_to(3)
    await broker.stop()
    append(broker.topics["orders"][0], 3)
    await broker.start()
    assert await bench.read_to(6) == [(3, 6)]


async def test_the_reader_is_told_and_may_carry_on(broker: FakeBroker, bench: Bench) -> None:
    append(broker.topics["orders"][0], 2)
    broker.script[FETCH].append(CorruptLog("Bad disk."))
    await bench.fetcher.add({ORDERS: 0})
    with pytest.raises(CorruptLog, match="Bad disk"):
        await bench.chunk()
    assert await bench.read_to(2) == [(0, 2)]


async def test_what_was_fetched_before_a_failure_comes_first(
    broker: FakeBroker, bench: Bench
) -> None:
    append(broker.topics["orders"][0], 2)
    broker.script[FETCH].extend(["done", CorruptLog("Bad disk.")])
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: bench.feed.failure is not None)
    assert (await bench.chunk()).next_offset == 2
    with pytest.raises(CorruptLog):
        await bench.chunk()


async def test_a_deleted_topic_is_told(broker: FakeBroker, bench: Bench) -> None:
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: broker.count(FETCH) == 1)
    del broker.topics["orders"]
    await broker.stop()
    await broker.start()
    with pytest.raises(UnknownTopic):
        await bench.chunk()


@pytest.mark.parametrize(("policy", "position"), [("earliest", 5), ("latest", 10)])
async def test_out_of_range_goes_on_by_policy(
    broker: FakeBroker, bench: Bench, policy: OutOfRange, position: int
) -> None:
    bench.make(on_out_of_range=policy)
    partition = broker.topics["orders"][0]
    append(partition, 10)
    partition.start = 5
    await bench.fetcher.add({ORDERS: 2})
    await broker.until(lambda: bench.feed.fetch_offset >= position)
    append(partition)
    assert (await bench.read_to(11))[0][0] == position


async def test_out_of_range_is_raised_where_asked(broker: FakeBroker, bench: Bench) -> None:
    bench.make(on_out_of_range="error")
    await bench.fetcher.add({ORDERS: 7})
    with pytest.raises(OffsetOutOfRange):
        await bench.chunk()
    bench.fetcher.seek(bench.feed, 0)
    append(broker.topics["orders"][0])
    assert await bench.read_to(1) == [(0, 1)]


async def test_a_late_answer_of_before_a_seek_is_dropped(broker: FakeBroker, bench: Bench) -> None:
    append(broker.topics["orders"][0], 5)
    broker.script[FETCH].append(HOLD)
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: bool(broker.held))
    bench.fetcher.seek(bench.feed, 3)
    broker.release()
    assert await bench.read_to(5) == [(3, 5)]
    for _ in range(20):
        await asyncio.sleep(0)
    assert bench.fetcher.take() is None


async def test_paused_partitions_give_nothing(broker: FakeBroker, bench: Bench) -> None:
    append(broker.topics["orders"][0], 5)
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: broker.count(FETCH) == 2)  # five messages, and a long poll
    bench.fetcher.pause(bench.feed)
    assert bench.fetcher.take() is None
    append(broker.topics["orders"][0])
    for _ in range(20):
        await asyncio.sleep(0)
    assert broker.count(FETCH) == 2
    bench.fetcher.resume([bench.feed])
    assert await bench.read_to(6) == [(0, 6)]


async def test_hostile_answers_end_in_an_error(broker: FakeBroker, bench: Bench) -> None:
    """Old batches, or half a header: an error for the reader, no endless loop."""
    partition = broker.topics["orders"][0]
    append(partition, 2)
    old = partition.read(0, 10_000)
    partition.read = lambda offset, max_bytes: old  # type: ignore[method-assign]
    await bench.fetcher.add({ORDERS: 2})
    with pytest.raises(CorruptLog, match=r"orders-0.*offset 2.*0 to 0"):
        await bench.chunk()
    partition.read = lambda offset, max_bytes: old[:30]  # type: ignore[method-assign]
    with pytest.raises(InvalidBatch):
        await bench.chunk()


async def test_closing_wakes_the_reader(bench: Bench) -> None:
    await bench.fetcher.add({ORDERS: 0})
    reading = asyncio.ensure_future(bench.chunk())
    await asyncio.sleep(0)
    await bench.fetcher.close()
    with pytest.raises(ClientClosed):
        await reading


async def test_a_start_that_fails_adds_nothing(broker: FakeBroker, bench: Bench) -> None:
    with pytest.raises(PenstockError):
        await bench.fetcher.add({TopicPartition("nothing", 0): "earliest"})
    assert bench.fetcher.feeds == {}


async def test_a_compacted_partition_is_read_on_behind_its_gaps(
    broker: FakeBroker, bench: Bench
) -> None:
    partition = broker.topics["orders"][0]
    append(partition, 20)
    partition.compacted = True
    thinned = {0: bytes(batches((2, 4), (7, 9))), 9: bytes(batches((15, 20)))}
    partition.read = lambda offset, max_bytes: thinned.get(offset, b"")  # type: ignore[method-assign]
    await bench.fetcher.add({ORDERS: 0})
    assert await bench.read_to(20) == [(0, 9), (9, 20)]


async def test_a_wrong_base_offset_is_told_to_the_reader(broker: FakeBroker, bench: Bench) -> None:
    """After what is in front of it, and again each time, until somebody mends it."""
    append(broker.topics["orders"][0], 2)
    good = broker.topics["orders"][0].read
    damaged = {0: bytes(batches((0, 1), (5, 6))), 1: bytes(batches((5, 6)))}
    broker.topics["orders"][0].read = lambda offset, max_bytes: damaged[offset]  # type: ignore[method-assign]
    await bench.fetcher.add({ORDERS: 0})
    assert await bench.read_to(1) == [(0, 1)]
    for _ in range(2):
        with pytest.raises(CorruptLog, match=r"at offset 1 .* offsets 5 to 5"):
            await bench.chunk()
    broker.topics["orders"][0].read = good  # type: ignore[method-assign]
    assert await bench.read_to(2) == [(1, 2)]


async def test_when_one_start_fails_the_others_are_not_left_behind(
    broker: FakeBroker, bench: Bench
) -> None:
    broker.script[pb.CALL_FIND_OFFSET].append(HOLD)
    adding = bench.fetcher.add({ORDERS: "earliest", TopicPartition("nothing", 0): "earliest"})
    await bench.links.any_broker()
    before = asyncio.all_tasks()
    with pytest.raises(UnknownTopic):
        await adding
    assert asyncio.all_tasks() == before


async def test_many_readers_share_the_connection(broker: FakeBroker, mq: Client) -> None:
    """R-NET-2: the long polls of all partitions wait on one connection at once."""
    broker.create("wide", 10)
    async with mq.consumer("wide"):
        await broker.until(lambda: broker.count(FETCH) == 10)
        assert len(broker.channels) == 1


# --- with a filter -----------------------------------------------------------------------------

SOME = "price > 10"


async def test_what_a_filter_leaves_out_is_gone_past(broker: FakeBroker, bench: Bench) -> None:
    """R-DEL-12: skipped messages advance the reader, in the middle and at the end."""
    partition = broker.topics["orders"][0]
    append(partition, 20)
    partition.passing = {3, 4, 9}
    partition.looked_at_max = 7
    bench.make(filter_=SOME)
    await bench.fetcher.add({ORDERS: 1})
    ranges = []
    found: list[int] = []
    while bench.feed.position < 20:
        chunk = await bench.chunk()
        ranges.append((chunk.start_offset, chunk.next_offset))
        found += [each.offset for each in decode_messages(chunk.payload, "orders", 0, 0)]
        bench.feed.position = chunk.next_offset
    assert found == [3, 4, 9]
    assert is_gapless(ranges, 1, 20)
    requests = [request for number, request in broker.calls if number == FETCH]
    assert {request.filter.expression for request in requests} == {"price > 10"}


async def test_answers_without_a_message_are_bounded_too(broker: FakeBroker, bench: Bench) -> None:
    """R-DEL-12: a reader that is slow does not gather them without end."""
    partition = broker.topics["orders"][0]
    append(partition, 100)
    partition.looked_at_max = 1
    bench.make(buffer_bytes=10_000, filter_=SOME)
    await bench.fetcher.add({ORDERS: 0})
    await broker.until(lambda: bench.feed.fetch_offset == 10)
    for _ in range(50):
        await asyncio.sleep(0)
    assert bench.feed.fetch_offset == 10
    assert is_gapless(await bench.read_to(100), 0, 100)


async def test_a_quiet_filter_does_not_spin(broker: FakeBroker, bench: Bench) -> None:
    append(broker.topics["orders"][0], 5)
    bench.make(filter_=SOME)
    await bench.fetcher.add({ORDERS: 0})
    await bench.read_to(5)
    for _ in range(50):
        await asyncio.sleep(0)
    assert broker.count(FETCH) == 2, "to the end, and there it waits"


async def test_a_broker_that_filters_nothing_is_not_believed(
    broker: FakeBroker, bench: Bench
) -> None:
    """R-DEL-12: or the reader would get what it has not asked for."""
    broker.filters = False
    append(broker.topics["orders"][0], 5)
    bench.make(filter_=SOME)
    await bench.fetcher.add({ORDERS: 0})
    with pytest.raises(UnsupportedVersion, match="not filtered by its broker"):
        await bench.chunk()


async def test_a_wrong_filter_is_told_to_the_reader(broker: FakeBroker, bench: Bench) -> None:
    broker.script[FETCH].append(InvalidFilter("The filter is wrong at character 9: no."))
    bench.make(filter_=SOME)
    await bench.fetcher.add({ORDERS: 0})
    with pytest.raises(InvalidFilter, match="at character 9"):
        await bench.chunk()
