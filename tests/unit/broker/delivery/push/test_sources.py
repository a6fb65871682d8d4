"""Where pushed messages come from: whole batches, within what the credit pays for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker import broker as broker_module
from penstock.broker.context import Context
from penstock.broker.delivery.push.sources import ExclusiveSource, Load, read_batches
from penstock.model.errors import Busy, OffsetOutOfRange, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.records import decode_messages
from tests.kit.broker.running import RawClient, batch, running

ORDERS = TopicPartition("orders", 0)


class Bench:
    def __init__(self, context: Context, raw: RawClient) -> None:
        self.context = context
        self.raw = raw
        self.outcomes: list[Load | PenstockError | None] = []

    def source(self, offset: int = 0) -> ExclusiveSource:
        return ExclusiveSource(self.context.leaders, ORDERS, offset, read_batches)

    def next(self, source: ExclusiveSource, messages: int = 1000, size: int = 1 << 20) -> None:
        source.next(messages, size, self.outcomes.append)

    def load(self, source: ExclusiveSource, messages: int = 1000, size: int = 1 << 20) -> Load:
        self.next(source, messages, size)
        load = self.outcomes.pop()
        assert isinstance(load, Load)
        return load


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    """Five batches of two messages."""
    found: list[Context] = []

    def make(**parts: Any) -> Context:
        found.append(Context(**parts))
        return found[-1]

    monkeypatch.setattr(broker_module, "Context", make)
    async with running() as (_, raw):
        await raw.create("orders")
        for number in range(5):
            await raw.produce("orders", batch([b"%d" % number] * 2))
        yield Bench(found[0], raw)


def values(load: Load) -> list[bytes | None]:
    assert not isinstance(load.payload, bytes)
    return [each.value for each in decode_messages(load.payload.read(), "", 0, load.offset)]


async def test_loads_follow_one_another(bench: Bench) -> None:
    source = bench.source(1)
    first = bench.load(source, messages=3)
    assert (first.offset, first.next_offset, first.messages) == (1, 4, 3)
    assert values(first) == [b"0", b"1", b"1"]
    second = bench.load(source)
    assert (second.offset, second.next_offset, second.high_watermark) == (4, 10, 10)
    source.drop(second)
    assert values(bench.load(source)) == values(second)


@pytest.mark.parametrize(("messages", "count"), [(1, 2), (2, 2), (3, 2), (4, 4), (9, 8), (10, 10)])
async def test_a_batch_is_not_cut_and_one_always_comes(
    bench: Bench, messages: int, count: int
) -> None:
    assert bench.load(bench.source(), messages=messages).messages == count
    assert bench.load(bench.source(), size=1).messages == 2


async def test_who_waits_is_woken_to_look_again(bench: Bench) -> None:
    source = bench.source(10)
    bench.next(source)
    assert bench.outcomes == []
    await bench.raw.produce("orders", batch([b"more"]))
    assert bench.outcomes == [None]
    assert values(bench.load(source)) == [b"more"]


async def test_who_has_cancelled_is_not_woken(bench: Bench) -> None:
    source = bench.source(10)
    bench.next(source)
    source.cancel()
    source.close(())
    await bench.raw.produce("orders", batch([b"more"]))
    assert bench.outcomes == []
    assert not bench.context.partitions.find(*ORDERS).readers.count


async def test_a_load_comes_again_as_it_was(bench: Bench) -> None:
    source = bench.source(1)
    load = bench.load(source, messages=3)
    await bench.raw.produce("orders", batch([b"more"]))
    again = source.again(load)
    assert again is not None
    assert (again.offset, again.next_offset) == (1, 4)
    assert values(again) == values(load)
    # The next one is where it was.
    assert bench.load(source).offset == 4


async def test_what_is_gone_does_not_come_again(bench: Bench) -> None:
    source = bench.source()
    load = bench.load(source, messages=2)
    gone: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
    bench.context.partitions.find(*ORDERS).replica.delete_before(4, gone.set_result)
    assert await gone is None
    with pytest.raises(OffsetOutOfRange):
        source.again(load)
    bench.next(bench.source(2))
    assert isinstance(bench.outcomes.pop(), OffsetOutOfRange)


async def test_what_compaction_has_changed_ends_the_stream(bench: Bench) -> None:
    """The client opens another, where it has come to."""
    source = bench.source()
    load = bench.load(source, messages=2)
    shortened = ExclusiveSource(bench.context.leaders, ORDERS, 0, lambda *_: None)
    with pytest.raises(Busy, match="open the stream again"):
        shortened.again(load)


async def test_no_such_partition(bench: Bench) -> None:
    source = ExclusiveSource(bench.context.leaders, TopicPartition("nothing", 0), 0, read_batches)
    bench.next(source)
    assert isinstance(bench.outcomes.pop(), UnknownTopic)
