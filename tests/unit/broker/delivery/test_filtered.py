"""Reading through a filter: what passes, all of it, once; in bounded pieces."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from penstock.broker.delivery import filtered
from penstock.broker.delivery.filtered import FilteredPart, filtered_read
from penstock.broker.turns.fair_turns import Job, Pieces
from penstock.coordination.filter.filters import CompiledFilter, Filter, parse_filter
from penstock.model.errors import CorruptLog, InvalidBatch, OffsetOutOfRange, PenstockError
from penstock.model.ids import TopicPartition
from penstock.model.limits import FILTERED_BYTES_MAX
from penstock.records import BatchBuilder, Message, Selection, control_batch, decode_messages
from penstock.records.header import read_header, stamp, write_header
from penstock.records.rewrite import empty_batch

NOW_MS = 1_700_000_000_000


class Bytes:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> bytes:
        return self._content


class Kept:
    """A partition of batches in memory."""

    def __init__(self) -> None:
        self.name = TopicPartition("orders", 0)
        self.is_open = True
        self.start_offset = 0
        self.end_offset = 0
        self.batches: list[bytearray] = []
        self.reads = 0

    def add(self, batch: bytes | bytearray) -> None:
        made = bytearray(batch)
        stamp(memoryview(made), self.end_offset, 0)
        self.batches.append(made)
        self.end_offset = read_header(made).next_offset

    def fill(self, numbers: range, *, codec: int = 0, size_bytes: int = 10) -> None:
        """One batch: message n has key n, tag n % 10 and n as a header."""
        builder = BatchBuilder(1 << 26, codec)
        for number in numbers:
            headers = [("penstock-tag", b"%d" % (number % 10)), ("number", b"%d" % number)]
            builder.append(NOW_MS + number, b"%d" % number, b"v" * size_bytes, headers)
        self.add(builder.build())

    def read(self, offset: int, max_bytes: int) -> Bytes:
        self.reads += 1
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"{offset} is not there.")
        found = b""
        for batch in self.batches:
            if read_header(batch).next_offset > offset:
                if found and len(found) + len(batch) > max_bytes:
                    break
                found += batch
        return Bytes(found)


def run(
    partition: Kept, compiled: CompiledFilter, offset: int = 0, max_bytes: int = 1 << 20
) -> tuple[FilteredPart, int]:
    """What was found, and in how many pieces."""
    return finish(filtered_read(partition, offset, max_bytes, compiled))


def finish(
    work: Pieces[FilteredPart], jobs: list[object] | None = None
) -> tuple[FilteredPart, int]:
    """jobs: what a thread was to do, and came to."""
    pieces = 1
    go_on: Callable[[], Job | None] = partial(next, work)
    while True:
        try:
            job = go_on()
        except StopIteration as stop:
            return stop.value, pieces
        pieces += 1
        go_on = partial(next, work)
        if job is not None:
            try:
                outcome = job()
            except PenstockError as error:
                go_on = partial(work.throw, error)
                outcome = error
            else:
                go_on = partial(work.send, outcome)
            if jobs is not None:
                jobs.append(outcome)


def messages(part: FilteredPart, start_offset: int = 0) -> list[Message]:
    return decode_messages(b"".join(part.payload), "orders", 0, start_offset)


def tagged(tag: str) -> CompiledFilter:
    return parse_filter(Filter(tags=[tag]))


EVERYTHING = parse_filter(Filter())
NOTHING = parse_filter(Filter(key=b"nobody has it"))


@pytest.mark.parametrize("codec", range(5))
def test_what_passes_comes_with_its_own_offsets(codec: int) -> None:
    """R-DEL-12: batches without the others."""
    partition = Kept()
    for first in range(0, 100, 20):
        partition.fill(range(first, first + 20), codec=codec)
    part, _ = run(partition, tagged("3"))
    assert part.next_offset == 100
    assert [each.offset for each in messages(part)] == list(range(3, 100, 10))
    assert [each.tag for each in messages(part)] == ["3"] * 10
    assert [each.key for each in messages(part)] == [b"%d" % n for n in range(3, 100, 10)]
    assert {read_header(each).codec for each in part.payload} == {codec}


def test_a_batch_of_which_all_pass_is_the_bytes_it_was() -> None:
    """R-DEL-12: nothing is done to what need not be changed."""
    partition = Kept()
    partition.fill(range(20), codec=4)
    partition.fill(range(20, 40))
    part, _ = run(partition, EVERYTHING)
    assert [bytes(each) for each in part.payload] == [bytes(each) for each in partition.batches]


def test_nothing_that_passes_still_leads_on() -> None:
    """R-DEL-12: skipped messages advance the reader."""
    partition = Kept()
    partition.fill(range(40))
    assert run(partition, NOTHING)[0] == FilteredPart([], 40, 0)
    assert run(partition, NOTHING, offset=40)[0] == FilteredPart([], 40, 0)


def test_no_more_messages_than_asked_for_unless_one_batch_has_them() -> None:
    """R-DEL-6: a push goes as far as its credit."""
    partition = Kept()
    for first in range(0, 100, 20):
        partition.fill(range(first, first + 20))
    for messages_max, count, end in ((1, 20, 20), (39, 20, 20), (40, 40, 40), (1000, 100, 100)):
        part, _ = finish(filtered_read(partition, 0, 1 << 20, EVERYTHING, messages_max))
        assert (part.message_count, part.next_offset) == (count, end)
    part, _ = finish(filtered_read(partition, 0, 1 << 20, tagged("3"), 25))
    # Of the third batch two more would pass; it has twenty that might.
    assert (part.message_count, part.next_offset) == (6, 60)


def test_beginning_within_a_batch() -> None:
    partition = Kept()
    partition.fill(range(40))
    part, _ = run(partition, tagged("3"), offset=14)
    assert [each.offset for each in messages(part, 14)] == [23, 33]
    part, _ = run(partition, EVERYTHING, offset=14)
    assert [bytes(each) for each in part.payload] == [bytes(partition.batches[0])]


def test_from_any_offset_in_any_portions_all_that_passes_comes_once() -> None:
    partition = Kept()
    for first in range(0, 200, 8):
        partition.fill(range(first, first + 8), codec=first // 8 % 5)
    for max_bytes in (1, 300, 2000):
        found: list[int] = []
        offset = 5
        while offset < 200:
            part, _ = run(partition, tagged("7"), offset, max_bytes)
            assert part.next_offset > offset
            assert len(part.payload) <= 1 or sum(map(len, part.payload)) <= max_bytes
            found += [each.offset for each in messages(part, offset)]
            offset = part.next_offset
        assert found == list(range(7, 200, 10))


def test_control_batches_and_empty_ones_are_passed_over() -> None:
    partition = Kept()
    partition.add(control_batch(7, b"value", timestamp_ms=NOW_MS))
    partition.fill(range(10))
    gone = bytearray(partition.batches[1])
    partition.batches[1] = empty_batch(read_header(gone))
    partition.fill(range(10))
    part, _ = run(partition, EVERYTHING)
    assert [each.offset for each in messages(part)] == list(range(11, 21))
    assert part.next_offset == 21


def test_so_much_is_looked_at_and_then_it_is_told() -> None:
    """R-DEL-12: bounded work for one request."""
    partition = Kept()
    for first in range(0, 30_000, 1000):
        partition.fill(range(first, first + 1000), size_bytes=1000)
    part, _ = run(partition, NOTHING)
    assert part.payload == []
    looked_at = sum(len(each) for each in partition.batches[: part.next_offset // 1000])
    assert FILTERED_BYTES_MAX <= looked_at < FILTERED_BYTES_MAX + 2_000_000


def test_what_batches_decompress_to_counts() -> None:
    partition = Kept()
    for first in range(0, 20_000, 1000):
        partition.fill(range(first, first + 1000), size_bytes=1000, codec=4)
    assert sum(map(len, partition.batches)) < 1_000_000
    part, _ = run(partition, NOTHING)
    assert part.next_offset in range(4000, 7000)


def test_large_batches_and_expensive_filters_are_done_in_pieces() -> None:
    """R-DEL-12: nobody waits long for somebody's filter."""
    partition = Kept()
    partition.fill(range(20_000), size_bytes=1)
    _, cheap = run(partition, tagged("3"))
    _, dear = run(partition, parse_filter(Filter(expression="OR ".join(["number = 1 "] * 60))))
    assert cheap >= 20_000 * tagged("3").cost // filtered._PIECE_COST
    assert dear > 10 * cheap


@pytest.mark.parametrize("codec", range(1, 5))
def test_what_takes_long_in_one_go_is_for_a_thread(codec: int) -> None:
    """R-DEL-12: a small batch that opens to a large one holds up nobody."""
    partition = Kept()
    partition.fill(range(2000), size_bytes=3000, codec=codec)
    jobs: list[object] = []
    part, _ = finish(filtered_read(partition, 0, 1 << 20, tagged("3")), jobs)
    assert [type(each) for each in jobs] == [Selection, bytearray]
    assert [each.offset for each in messages(part)] == list(range(3, 2000, 10))


@pytest.mark.parametrize("codec", range(5))
def test_what_takes_little_is_done_at_once(codec: int) -> None:
    partition = Kept()
    for first in range(0, 100, 20):
        partition.fill(range(first, first + 20), size_bytes=10_000, codec=codec)
    jobs: list[object] = []
    finish(filtered_read(partition, 0, 1 << 20, tagged("3")), jobs)
    assert jobs == []


def test_a_batch_that_opens_to_too_much_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtered, "OPENED_BATCH_BYTES_MAX", 1 << 20)
    partition = Kept()
    partition.fill(range(10))
    partition.fill(range(10, 30), size_bytes=1 << 17, codec=1)
    jobs: list[object] = []
    part, _ = finish(filtered_read(partition, 0, 1 << 20, tagged("3")), jobs)
    assert part.next_offset == 10
    assert [type(each) for each in jobs] == [InvalidBatch]
    with pytest.raises(InvalidBatch, match="at offset 10 cannot be decompressed"):
        run(partition, tagged("3"), offset=10)


def test_many_batches_of_nothing_are_done_in_pieces() -> None:
    partition = Kept()
    for _ in range(500):
        partition.add(control_batch(7, b"value", timestamp_ms=NOW_MS))
    part, pieces = run(partition, EVERYTHING)
    assert part == FilteredPart([], 500, 0)
    assert pieces > 4


def test_an_offset_that_is_gone_is_told_only_if_there_is_no_way_on() -> None:
    partition = Kept()
    for first in range(0, 100, 10):
        partition.fill(range(first, first + 10), size_bytes=100_000)
    with pytest.raises(OffsetOutOfRange):
        run(partition, NOTHING, offset=101)
    work = filtered_read(partition, 0, 1 << 20, NOTHING)
    next(work)
    partition.start_offset = 90  # retention, in a pause
    assert 0 < finish(work)[0].next_offset < 90


def test_a_partition_that_closes_in_a_pause_ends_it() -> None:
    partition = Kept()
    for first in range(0, 100, 10):
        partition.fill(range(first, first + 10), size_bytes=100_000)
    work = filtered_read(partition, 0, 1 << 20, NOTHING)
    next(work)
    reads = partition.reads
    partition.is_open = False
    finish(work)
    assert partition.reads == reads


def test_damage_is_never_put_together_again() -> None:
    """The checksum is checked before one is made anew; what is before the damage comes first."""
    partition = Kept()
    partition.fill(range(10))
    partition.fill(range(10, 20))
    partition.batches[1][-1] ^= 1
    part, _ = run(partition, tagged("3"))
    assert (part.next_offset, len(messages(part))) == (10, 1)
    with pytest.raises(CorruptLog, match=r"orders-0 cannot be read on from offset 10.*inspect"):
        run(partition, tagged("3"), offset=10)


def test_records_that_make_no_sense_are_told_of_when_they_come_first() -> None:
    partition = Kept()
    partition.fill(range(10))
    partition.fill(range(10, 20))
    bad = partition.batches[1]
    bad[61] ^= 0x7E
    write_header(bad, read_header(bad))
    part, _ = run(partition, tagged("3"))
    assert (part.next_offset, len(messages(part))) == (10, 1)
    with pytest.raises(InvalidBatch, match="offset 10 is malformed"):
        run(partition, tagged("3"), offset=10)
