"""A log as a shared group sees it: what there is, told in parts, and looked into once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker import broker as broker_module
from penstock.broker.context import Context
from penstock.broker.delivery import share_log
from penstock.broker.delivery.share_log import Matches, ShareLog
from penstock.broker.partition import Partition
from penstock.coordination.delivery.share_partition import SharePartition
from penstock.coordination.delivery.share_settings import Settlement, ShareSettings
from penstock.model.ids import TopicPartition
from penstock.records import BatchBuilder, Message, decode_batch
from tests.support import RawClient, running

ORDERS = TopicPartition("orders", 0)
WINDOW = 4


class Bench:
    def __init__(self, partition: Partition, raw: RawClient) -> None:
        self.partition = partition
        self.raw = raw

    async def publish(self, count: int, keys: int = 1, priority: bytes | None = None) -> None:
        builder = BatchBuilder(1 << 20, 0)
        headers = () if priority is None else (("penstock-priority", priority),)
        for number in range(count):
            builder.append(1_000, b"%d" % (number % keys), b"%d" % number, headers)
        await self.raw.produce("orders", bytearray(builder.build()))

    def group(
        self, *, ordered: bool = False, matches: Matches | None = None
    ) -> tuple[ShareLog, SharePartition]:
        log = ShareLog(self.partition, is_ordered_by_key=ordered, matches=matches)
        settings = ShareSettings(window_max=WINDOW, is_ordered_by_key=ordered)
        return log, SharePartition.fresh(0, settings)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    found: list[Context] = []

    def make(**parts: Any) -> Context:
        found.append(Context(**parts))
        return found[-1]

    monkeypatch.setattr(broker_module, "Context", make)
    async with running() as (_, raw):
        await raw.create("orders")
        yield Bench(found[0].partitions.find(*ORDERS), raw)


def take_all(log: ShareLog, machine: SharePartition, end: int) -> list[int]:
    """All offsets, as they are leased, one after another acknowledged."""
    taken: list[int] = []
    for _ in range(10 * end):
        log.feed(machine, 0)
        for lease in machine.lease("a", 1, 0):
            taken.append(lease.first)
            machine.settle("a", lease.first, lease.last, Settlement.ACKNOWLEDGE, 0)
        machine.durable(machine.snapshot())
        machine.check()
    assert machine.start == end
    return taken


@pytest.mark.parametrize("ordered", [False, True])
async def test_a_batch_larger_than_the_window_is_told_in_parts(bench: Bench, ordered: bool) -> None:
    await bench.publish(10, keys=3)
    await bench.publish(3)
    log, machine = bench.group(ordered=ordered)
    log.feed(machine, 0)
    assert machine.wanted is None
    assert machine.counts().available + machine.counts().blocked == WINDOW
    assert sorted(take_all(log, machine, 13)) == list(range(13))


async def test_a_batch_is_read_and_looked_into_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However small the steps of the window are."""
    looked: list[int] = []

    def counted(header: Any, *rest: Any) -> Any:
        looked.append(header.base_offset)
        return decode_batch(header, *rest)

    monkeypatch.setattr(share_log, "decode_batch", counted)
    await bench.publish(20)
    await bench.publish(20)
    log, machine = bench.group(ordered=True)
    assert take_all(log, machine, 40) == list(range(40))
    assert looked == [0, 20]


async def test_a_batch_with_too_much_to_remember_is_looked_into_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of it is bounded; what is told is the same."""
    monkeypatch.setattr(share_log, "_FOUND_MAX", 5)
    await bench.publish(20)
    log, machine = bench.group(ordered=True)
    assert take_all(log, machine, 20) == list(range(20))
    assert log._found is None


async def test_what_does_not_match_is_skipped_in_every_part(bench: Bench) -> None:
    """R-DEL-12."""
    await bench.publish(20)

    def matches(message: Message) -> bool:
        return message.value in (b"0", b"7", b"8", b"19")

    log, machine = bench.group(matches=matches)
    assert take_all(log, machine, 20) == [0, 7, 8, 19]


async def test_priorities_are_known_in_every_part(bench: Bench) -> None:
    await bench.publish(6, priority=b"1")
    await bench.publish(2, priority=b"9")
    log, machine = bench.group()
    assert sorted(take_all(log, machine, 8)) == list(range(8))
