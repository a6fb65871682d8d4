"""Reading a log with gaps and a start of its own: exactly what is left, from any offset."""

from __future__ import annotations

import random

import pytest

from penstock.model.errors import OffsetOutOfRange
from penstock.records.header import BatchHeader
from penstock.storage.log.log import Log
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import (
    append,
    delete_records,
    flush,
    make_batch,
    open_log,
    read_all,
    split,
    thin_out,
)

SEEDS = range(8)


class Thinned:
    """A log of many segments whose sealed ones lost batches by chance."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.disk = SimulatedDisk()
        self.log = open_log(self.disk.root)
        for number in range(30):
            append(self.log, make_batch(b"x" * 150, records=1 + number % 3))
        flush(self.log)
        self.length_by_offset = {
            header.base_offset: header.length for header in self.log.headers(0)
        }
        share = chance.choice([0.1, 0.5, 0.9])
        lost = {offset for offset in self.length_by_offset if chance.random() < share}
        for segment in self.log.sealed_segments():
            thin_out(self.log, [segment], lambda header: header.base_offset not in lost)
        assert self.log.segment_count >= 5

    def reopen(self) -> None:
        clean_end = self.log.close()
        self.log = Log.open(self.disk.root, self.log.writer.config, clean_end=clean_end)

    @property
    def left(self) -> list[BatchHeader]:
        return [header for header, _ in read_all(self.log)]


@pytest.fixture(params=SEEDS)
def thinned(request: pytest.FixtureRequest) -> Thinned:
    return Thinned(request.param)


def offsets(payload: bytes) -> list[int]:
    return [header.base_offset for header, _ in split(payload)]


def test_a_read_brings_what_is_left_from_any_offset(thinned: Thinned) -> None:
    """R-STO-2: never repeats or skips, also where offsets are missing."""
    log, left = thinned.log, thinned.left
    for limit in (header.next_offset for header in left[::3]):
        for offset in range(limit):
            expected = [
                header.base_offset
                for header in left
                if header.next_offset > offset and header.next_offset <= limit
            ]
            for max_bytes in (1, 700, 1 << 20):
                found = offsets(log.read(offset, max_bytes, limit).read())
                assert found == expected[: len(found)]
                assert bool(found) == bool(expected), (offset, limit)
            assert bool(log.bytes_between(offset, limit)) or not expected


def test_chunks_of_any_size_bring_the_same(thinned: Thinned) -> None:
    whole = thinned.left
    for max_bytes in (1, 300, 1 << 20):
        assert [header for header, _ in read_all(thinned.log, max_bytes)] == whole


def test_headers_come_from_any_offset(thinned: Thinned) -> None:
    left = thinned.left
    for offset in range(thinned.log.written_offset):
        expected = [header for header in left if header.next_offset > offset]
        assert list(thinned.log.headers(offset)) == expected


def test_gaps_are_read_the_same_after_a_restart() -> None:
    thinned = Thinned(3)
    left = thinned.left
    thinned.reopen()
    assert thinned.log.is_compacted
    assert thinned.left == left
    for segment in thinned.log.sealed_segments():
        thinned.disk.root.remove(segment.stem + ".index")
    thinned.reopen()
    assert thinned.left == left


def test_a_gap_before_the_limit_is_empty() -> None:
    log = open_log(SimulatedDisk().root)
    append(log, *[make_batch()] * 3)
    log.writer.roll()
    flush(log)
    thin_out(log, log.sealed_segments(), lambda _: False)
    assert log.read(0, 100, 2).length == 0
    assert log.bytes_between(0, 2) == 0
    assert log.max_timestamp(2) is None
    assert offsets(log.read(0, 100, 3).read()) == [2]


def test_bytes_between_is_near_with_gaps(thinned: Thinned) -> None:
    log, left = thinned.log, thinned.left
    end = log.written_offset
    for offset in range(end):
        exact = sum(header.length for header in left if header.next_offset > offset)
        largest = max(thinned.length_by_offset.values())
        assert exact <= log.bytes_between(offset, end) <= exact + 256 + largest


def test_nothing_before_the_start_is_handed_out(thinned: Thinned) -> None:
    log, left = thinned.log, thinned.left
    start = log.written_offset // 2
    delete_records(log, start)
    with pytest.raises(OffsetOutOfRange, match=f"has {start} to"):
        log.read(start - 1, 100, log.written_offset)
    expected = [header for header in left if header.next_offset > start]
    assert thinned.left == expected
    assert next(log.headers(0)) == left[0], "they still tell who produced"
    assert log.first_offset == 0
    assert log.bytes_between(0, log.written_offset) == log.bytes_between(start, log.written_offset)
