"""A log as a shared group sees it: what there is, told in parts, and looked into once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.broker import broker as broker_module
from penstock.broker.context import Context
from penstock.broker.delivery.shared import log as share_log
from penstock.broker.delivery.shared.log import ShareLog
from penstock.broker.partitions.partition import Partition
from penstock.broker.partitions.unopened import TurnBudget
from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import Lease, Settlement, ShareSettings
from penstock.coordination.filter.filters import Filter, parse_filter
from penstock.model.errors import CorruptLog
from penstock.model.ids import TopicPartition
from penstock.records import BatchBuilder, walk_records
from penstock.records.header import check_batch, read_header, stamp
from penstock.records.rewrite import keep_records, open_batch
from tests.kit.broker.running import RawClient, running

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

    def group(self, *, ordered: bool = False, wanted: str = "") -> tuple[ShareLog, SharePartition]:
        compiled = parse_filter(Filter(expression=wanted)) if wanted else None
        budget = TurnBudget(asyncio.get_running_loop().call_soon)
        log = ShareLog(self.partition, budget, is_ordered_by_key=ordered, compiled=compiled)
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


def look(log: ShareLog, machine: SharePartition) -> int:
    """Look to the end; how often others had a turn meanwhile."""
    pieces, outcome = log.look(machine), None
    for turns in itertools.count():
        try:
            job = pieces.send(outcome)
        except StopIteration:
            return turns
        outcome = None if job is None else job()
    raise AssertionError


def take_all(log: ShareLog, machine: SharePartition, end: int) -> list[int]:
    """All offsets, as they are leased, one after another acknowledged."""
    taken: list[int] = []
    for _ in range(10 * end):
        if log.feed(machine, 0) and log.is_filtered:
            look(log, machine)
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
        return walk_records(header, *rest)

    monkeypatch.setattr(share_log, "walk_records", counted)
    await bench.publish(20)
    await bench.publish(20)
    log, machine = bench.group(ordered=True)
    assert take_all(log, machine, 40) == list(range(40))
    assert looked == [0, 20]


async def test_a_batch_with_too_much_to_remember_is_looked_into_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of it is bounded; what is told is the same."""
    looked: list[int] = []

    def counted(*what: Any) -> Any:
        for record in walk_records(*what):
            looked.append(record[0])
            yield record

    monkeypatch.setattr(share_log, "walk_records", counted)
    monkeypatch.setattr(share_log, "_FOUND_MAX", 2 * WINDOW)
    await bench.publish(20)
    log, machine = bench.group(ordered=True)
    assert take_all(log, machine, 20) == list(range(20))
    part = 2 * WINDOW - 1
    assert looked == [*range(part), *range(2 * part), *range(20)]


async def test_what_does_not_match_is_skipped_in_every_part(bench: Bench) -> None:
    """R-DEL-12."""
    await bench.publish(20, keys=20)
    await bench.publish(3, keys=3)
    log, machine = bench.group(wanted="key IN ('0', '7', '8', '19')")
    assert take_all(log, machine, 23) == [0, 7, 8, 19, 20]


@pytest.mark.parametrize("at_once", [0, 1_000])
async def test_what_passes_keeps_its_order_and_priority(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """R-DEL-12: opened at once, or as a job of a thread."""
    monkeypatch.setattr(share_log, "_AT_ONCE_MESSAGES_MAX", at_once)
    await bench.publish(3, keys=3)
    await bench.publish(1, priority=b"9")
    log, machine = bench.group(wanted="key <> '1'")
    assert take_all(log, machine, 4) == [3, 0, 2]
    await bench.publish(4, keys=2)
    log, machine = bench.group(ordered=True, wanted="key = '1'")
    assert take_all(log, machine, 8) == [1, 5, 7]


async def test_an_expensive_filter_is_asked_in_turns(bench: Bench) -> None:
    """R-DEL-12: and feeding asks it nothing."""
    await bench.publish(500, keys=500)
    log, machine = bench.group(wanted=" OR ".join(["key LIKE '%a_a_a_b%'"] * 7))
    assert log.feed(machine, 0)
    assert machine.wanted == 0
    assert look(log, machine) > 100
    assert not log.feed(machine, 0)
    assert machine.start == 500


async def test_a_log_that_was_cut_is_looked_at_from_where_it_begins(bench: Bench) -> None:
    """R-DEL-12: which may be beyond what was wanted."""
    await bench.publish(5)
    await bench.publish(5)
    log, machine = bench.group(wanted="key = '0'")
    records = bench.partition.replica.log
    job = records.cutter.start_offset_job(5)
    job.run()
    records.cutter.finish_start_offset(job)
    assert take_all(log, machine, 10) == [5, 6, 7, 8, 9]


def compacted(*left: tuple[int, int, Sequence[int]]) -> Bench:
    """Of each batch: its base offset, how many messages it had, and which of them it has."""
    batches: list[bytearray] = []
    for base_offset, count, kept in left:
        builder = BatchBuilder(1 << 20, 0)
        for number in range(count):
            builder.append(1_000, b"%d" % number, b"value", ())
        batch = bytearray(builder.build())
        if len(kept) < count:
            view = memoryview(batch)
            batch = keep_records(open_batch(check_batch(view), view, 1 << 20), kept)
        stamp(memoryview(batch), base_offset, 0)
        batches.append(batch)
    end = read_header(batches[-1]).next_offset

    def read(offset: int, max_bytes: int) -> Any:
        later = [batch for batch in batches if read_header(batch).next_offset > offset]
        return SimpleNamespace(read=lambda: b"".join(later))

    records = SimpleNamespace(start_offset=0, next_offset=end)
    replica = SimpleNamespace(log=records, high_watermark=end)
    partition = SimpleNamespace(name=ORDERS, replica=replica, read=read, is_open=True)
    return Bench(cast(Partition, partition), cast(RawClient, None))


# Three messages, a hole of seven offsets, and a batch that has its first and third of four.
COMPACTED = ((0, 3, range(3)), (10, 4, (0, 2)))


@pytest.mark.parametrize("ordered", [False, True])
async def test_what_compaction_has_taken_is_not_waited_for(ordered: bool) -> None:
    """Nobody could ever acknowledge it, and the group would stand still before it."""
    log, machine = compacted(*COMPACTED).group(ordered=ordered)
    assert take_all(log, machine, 14) == [0, 1, 2, 10, 12]


@pytest.mark.parametrize("ordered", [False, True])
async def test_what_is_behind_a_window_that_compaction_has_taken_is_not_lost(ordered: bool) -> None:
    """R-DEL-3: the window moves on within a batch, and others were read with it."""
    log, machine = compacted((0, WINDOW + 3, range(WINDOW, WINDOW + 3)), (7, 2, range(2))).group(
        ordered=ordered
    )
    assert take_all(log, machine, 9) == [4, 5, 6, 7, 8]


async def test_what_compaction_takes_while_it_is_leased_is_told_as_gone() -> None:
    """It had been there when the machine was told."""
    log, _ = compacted(*COMPACTED).group()
    payload = log.payload([Lease(0, 13, 1)], 1 << 20)
    assert [(lease.first, lease.last) for lease in payload.leases] == [(0, 2), (10, 10), (12, 12)]
    assert payload.gone == [(3, 9), (11, 11), (13, 13)]


def damage(monkeypatch: pytest.MonkeyPatch, bench: Bench, base_offset: int, at: int = -1) -> None:
    """A byte of one of its batches, wherever it is read from now on."""
    read = bench.partition.read

    def damaged(offset: int, max_bytes: int) -> Any:
        content = bytearray(read(offset, max_bytes).read())
        position = 0
        while position < len(content):
            header = read_header(content, position)
            if header.base_offset == base_offset:
                content[position + (header.length + at if at < 0 else at)] ^= 2
                break
            position += header.length
        return SimpleNamespace(read=lambda: bytes(content))

    monkeypatch.setattr(bench.partition, "read", damaged)


THREE = ((0, 3, range(3)), (3, 4, range(4)), (7, 2, range(2)))
# Of the last offset a batch says it has: the byte that counts most, and the least.
DELTA_HIGH, DELTA_LOW = 23, 26


@pytest.mark.parametrize("at", [-1, DELTA_LOW, DELTA_HIGH])
@pytest.mark.parametrize("wanted", ["", "key <> '9'"])
async def test_a_damaged_batch_is_one_message_that_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, wanted: str, at: int
) -> None:
    """R-DEL-9: what is behind it is known by where the next one begins, whatever it says itself."""
    bench = compacted(*THREE)
    damage(monkeypatch, bench, 3, at)
    log, machine = bench.group(wanted=wanted)
    assert take_all(log, machine, 9) == [0, 1, 2, 3, 7, 8]
    for _ in range(2):
        payload = log.payload([Lease(3, 3, 1)], 1 << 20)
        ((first, last, why),) = payload.unreadable
        assert (payload.leases, first, last) == ([], 3, 3)
        assert why.startswith("Offsets 3 to ")
        assert "of orders-0 cannot be read: The record batch" in why
    assert [line for line in caplog.messages if why in line] == caplog.messages
    assert len(caplog.messages) == 1


async def test_damage_to_what_was_told_is_found_when_it_is_leased(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The messages around it are there; the log of the broker has one line, not one a lease."""
    bench = compacted(*THREE)
    damage(monkeypatch, bench, 3)
    log, _ = bench.group()
    for first, last in ((3, 4), (5, 6)):
        payload = log.payload([Lease(first, last, 1)], 1 << 20)
        assert [each[:2] for each in payload.unreadable] == [(first, last)]
    payload = log.payload([Lease(0, 8, 1)], 1 << 20)
    assert [(lease.first, lease.last) for lease in payload.leases] == [(0, 2), (7, 8)]
    assert [each[:2] for each in payload.unreadable] == [(3, 6)]
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("wanted", ["", "key <> '9'"])
async def test_nothing_is_passed_over_where_nobody_knows_what_it_is(
    monkeypatch: pytest.MonkeyPatch, wanted: str
) -> None:
    """The last that was read says of itself that it has more than it has: what comes would be
    lost."""
    bench = compacted((0, 3, range(3)))
    damage(monkeypatch, bench, 0, DELTA_HIGH)
    log, machine = bench.group(wanted=wanted)
    with pytest.raises(CorruptLog, match=r"orders-0 cannot be read on from offset 0.*inspect"):
        take_all(log, machine, 3)


async def test_what_was_read_just_now_is_leased_without_reading_it_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another group, which was not told of it, reads it."""
    for _ in range(3):
        await bench.publish(1)
    log, machine = bench.group()
    reads: list[int] = []

    def read(offset: int, max_bytes: int) -> Any:
        reads.append(offset)
        return bench.partition.replica.read(offset, max_bytes)

    monkeypatch.setattr(bench.partition, "read", read)
    log.feed(machine, 0)
    leases = [Lease(0, 2, 1)]
    fed = log.payload(leases, 1 << 20)
    assert [read_header(piece).base_offset for piece in fed.pieces] == [0, 1, 2]
    assert reads == [0]
    log, _ = bench.group()
    assert log.payload(leases, 1 << 20).pieces == fed.pieces
    assert reads == [0, 0, 1, 2]


async def test_priorities_are_known_in_every_part(bench: Bench) -> None:
    await bench.publish(6, priority=b"1")
    await bench.publish(2, priority=b"9")
    log, machine = bench.group()
    assert sorted(take_all(log, machine, 8)) == list(range(8))
