"""A segment: reads by offset, limits, boundaries; marks and cuts; its index."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptLog
from penstock.records.header import stamp
from penstock.storage.segments.segment import (
    LOG_SUFFIX,
    Segment,
    Staged,
    keep_index,
    open_stem,
    rebuild_index,
    sealed_stem,
)
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import NOW_MS, make_batch, split

FIRST = 100


def staged(offset: int, records: int, value: bytes = b"value", age_ms: int = 0) -> Staged:
    batch = bytearray(make_batch(value, records=records, timestamp_ms=NOW_MS - age_ms))
    stamp(memoryview(batch), offset, 0)
    newest_ms = NOW_MS - age_ms + records - 1
    return memoryview(batch), offset, offset + records, newest_ms, 0


@pytest.fixture
def segment() -> Segment:
    """Batches of 3 records: 100-102, 103-105, … 217-219, an index entry every 300 bytes."""
    segment = Segment(
        SimulatedDisk().root,
        first_offset=FIRST,
        next_offset=FIRST,
        size_bytes=0,
        sealed=False,
        interval_bytes=300,
    )
    segment.create()
    segment.append([staged(offset, 3) for offset in range(100, 220, 3)], 300)
    return segment


def read(segment: Segment, offset: int, max_bytes: int, limit: int) -> tuple[int, int]:
    """(first, next) offset of what a read brings."""
    batches = list(split(segment.read(offset, max_bytes, limit)[0].read()))
    return batches[0][0].base_offset, batches[-1][0].next_offset


def test_names_sort_by_offset() -> None:
    """R-STO-1."""
    assert open_stem(7) == "00000000000000000007.open"
    assert sealed_stem(7, 10) == "00000000000000000007-00000000000000000009"


def test_a_read_begins_with_the_batch_that_holds_the_offset(segment: Segment) -> None:
    """R-STO-2."""
    for offset in range(100, 220):
        segment._boundaries.clear()
        first, _ = read(segment, offset, 1, 220)
        assert first <= offset < first + 3


def test_a_read_ends_within_its_bytes_or_after_one_batch(segment: Segment) -> None:
    length = segment.size_bytes // 40
    assert read(segment, 100, 1, 220) == (100, 103)
    assert read(segment, 100, length, 220) == (100, 103)
    assert read(segment, 100, 2 * length, 220) == (100, 106)
    for max_bytes in range(300, segment.size_bytes, 97):
        assert length < segment.read(100, max_bytes, 220)[0].length <= max_bytes
    assert read(segment, 100, 1 << 30, 220) == (100, 220)


def test_a_read_never_passes_the_limit(segment: Segment) -> None:
    for limit in range(103, 221, 3):
        segment._boundaries.clear()
        offset = 100
        while offset < limit:
            first, after = read(segment, offset, 1 << 20, limit)
            assert first == offset < after <= limit
            offset = after


def test_nothing_before_the_limit_is_empty(segment: Segment) -> None:
    assert segment.read(103, 100, 104)[0].length == 0


def test_a_gap_is_read_from_the_next_batch_on() -> None:
    """Batches 100-102, 130-132, 160-162, … of a compacted segment, which an entry stands for."""
    segment = Segment(
        SimulatedDisk().root,
        first_offset=FIRST,
        next_offset=FIRST,
        size_bytes=0,
        sealed=False,
        interval_bytes=300,
        compacted=True,
    )
    segment.create()
    segment.append([staged(offset, 3) for offset in range(100, 400, 30)], 300)
    for offset in range(100, 373):
        for is_fresh in (True, False):
            if is_fresh:
                segment._boundaries.clear()
            expected = next(base for base in range(100, 400, 30) if base + 3 > offset)
            assert read(segment, offset, 1, 373) == (expected, expected + 3)
            assert segment.read(offset, 1 << 20, expected + 2)[0].length == 0
    assert segment.index.positions == rebuild_index(segment).positions


def test_a_held_segment_outlives_its_name(segment: Segment) -> None:
    segment.release()
    keep_index(segment, segment.index)
    segment.release()
    segment.hold()
    for name in segment.file_names():
        segment.directory.remove(name)
    assert read(segment, 150, 1, 220) == (148, 151)


def test_boundaries_are_bounded_and_save_the_walk(segment: Segment) -> None:
    for offset in range(100, 220, 3):
        segment.read(offset, 1, 220)
    assert len(segment._boundaries) <= 32
    assert 220 in segment._boundaries


def test_estimates_are_within_an_interval(segment: Segment) -> None:
    length = segment.size_bytes // 40
    for number in range(40):
        exact = number * length
        estimate = segment.estimate_position(100 + 3 * number)
        assert exact - 300 - length <= estimate <= exact
    assert segment.estimate_position(220) == segment.size_bytes


def test_restore_undoes_appends(segment: Segment) -> None:
    mark = segment.mark()
    before = segment.file.read_at(0, 1 << 20)
    positions = list(segment.index.positions)
    segment.append([staged(220, 1, b"x" * 500, age_ms=-5), staged(221, 1)], 300)
    assert segment.next_offset == 222
    segment.restore(mark)
    assert segment.mark() == mark
    assert list(segment.index.positions) == positions
    assert segment.file.read_at(0, 1 << 20) == before


def test_cut_makes_the_index_as_if_the_rest_had_never_been(segment: Segment) -> None:
    segment.append([staged(220, 1, age_ms=-1000)], 300)
    for offset in (220, 190, 103, 100):
        segment.cut(offset)
        assert segment.next_offset == offset
        rebuilt = rebuild_index(segment)
        assert segment.index.positions == rebuilt.positions
        assert segment.index.timestamps == rebuilt.timestamps
        assert segment.index.max_timestamp_ms == rebuilt.max_timestamp_ms
    assert segment.size_bytes == segment.file.size() == 0


def test_a_missing_index_is_made_again_and_kept(
    segment: Segment, caplog: pytest.LogCaptureFixture
) -> None:
    """R-STO-6."""
    positions = list(segment.index.positions)
    newest_ms = segment.max_timestamp_ms
    segment.release()
    assert segment.max_timestamp_ms == newest_ms
    assert list(segment.index.positions) == positions
    assert "00000000000000000100.open.index cannot be used" in caplog.text
    segment.release()
    caplog.clear()
    assert list(segment.index.positions) == positions
    assert not caplog.records


def test_an_index_that_cannot_be_written_is_only_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    segment = Segment(
        disk.root, first_offset=0, next_offset=0, size_bytes=0, sealed=False, interval_bytes=100
    )
    segment.create()
    disk.fail_next("append")
    keep_index(segment, segment.index)
    assert "was not written" in caplog.text


def test_a_name_that_promises_more_than_the_log_has_is_corrupt(segment: Segment) -> None:
    """R-STO-1: the name's offsets are held against the batches."""
    segment.directory.rename(segment.stem + LOG_SUFFIX, sealed_stem(100, 230) + LOG_SUFFIX)
    wrong = Segment(
        segment.directory,
        first_offset=100,
        next_offset=230,
        size_bytes=segment.size_bytes,
        sealed=True,
        interval_bytes=300,
    )
    with pytest.raises(CorruptLog, match=r"0100-0+229\.log is damaged .* offset 220, not 230"):
        wrong.read(150, 100, 230)
