"""Offsets by time, exact to the record whatever the order of the timestamps; and by term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.model.limits import MIB
from penstock.records import BatchBuilder, build_batch, control_batch
from penstock.records.header import (
    BatchHeader,
    Buffer,
    check_batch,
    read_header,
    stamp_append_time,
    write_header,
)
from penstock.records.rewrite import empty_batch
from penstock.storage.log.log import Log
from penstock.storage.segments import scan
from tests.kit.broker.running import peak_bytes
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import (
    CONFIG,
    NOW_MS,
    append,
    delete_records,
    flush,
    make_batch,
    open_log,
    read_all,
    stage,
    thin_out,
)

Records = list[tuple[int, int]]


def filled() -> tuple[Log, Records]:
    """A log of several segments whose times go up and down; (offset, timestamp) of its records."""
    log = open_log(SimulatedDisk().root)
    records = []
    for number in range(60):
        timestamp_ms = NOW_MS + number * 10 - (number * 7 % 5) * 25
        (offset,) = append(log, make_batch(records=3, timestamp_ms=timestamp_ms))
        records += [(offset + delta, timestamp_ms + delta) for delta in range(3)]
    assert log.segment_count > 2
    return log, records


def test_the_first_record_at_or_after_the_time() -> None:
    """R-STO-2."""
    log, records = filled()
    for timestamp_ms in range(NOW_MS - 120, NOW_MS + 620, 3):
        expected = next((found for found in records if found[1] >= timestamp_ms), None)
        assert log.offset_for_time(timestamp_ms, log.written_offset) == expected


def test_nothing_beyond_the_limit() -> None:
    log, records = filled()
    for limit in range(0, log.written_offset, 3):
        timestamp_ms = NOW_MS + 200
        expected = next((found for found in records[:limit] if found[1] >= timestamp_ms), None)
        assert log.offset_for_time(timestamp_ms, limit) == expected


def test_append_time_counts_where_the_topic_has_it() -> None:
    log = open_log(SimulatedDisk().root)
    view = memoryview(bytearray(make_batch(records=2)))
    stamp_append_time(view, NOW_MS + 500)
    append(log, bytes(view))
    assert log.offset_for_time(NOW_MS + 100, 2) == (0, NOW_MS + 500)


def test_control_batches_hold_no_messages() -> None:
    log = open_log(SimulatedDisk().root)
    control = bytes(control_batch(1, b"", timestamp_ms=NOW_MS + 100))
    assert check_batch(memoryview(control)).is_control
    append(log, make_batch(), control, make_batch(timestamp_ms=NOW_MS + 200))
    assert log.offset_for_time(NOW_MS + 50, log.written_offset) == (2, NOW_MS + 200)


def test_a_batch_that_would_open_into_too_much_is_named_by_its_first_record() -> None:
    """A few kilobytes on the disk may be gigabytes in memory: the search does not open them."""
    log = open_log(SimulatedDisk().root)
    bomb = build_batch([(None, bytes(33 * MIB)), (None, b"x")], timestamp_ms=NOW_MS, codec=4)
    assert len(bomb) < MIB
    append(log, make_batch(timestamp_ms=NOW_MS - 10), bytes(bomb))
    assert log.offset_for_time(NOW_MS, log.written_offset) == (1, NOW_MS)


def test_a_batch_is_opened_for_its_times_alone() -> None:
    """A record with millions of headers fits in a few kB: they are not made, on the loop least."""
    builder = BatchBuilder(1 << 24, 4)
    builder.append(NOW_MS, None, None, [("", b"")] * 200_000)
    log = open_log(SimulatedDisk().root)
    append(log, bytes(builder.build()))
    assert peak_bytes(lambda: log.offset_for_time(NOW_MS, 1)) < 5_000_000
    assert peak_bytes(lambda: log.max_timestamp(1)) < 5_000_000


def test_lying_batches_are_opened_only_so_often() -> None:
    """A batch may say a newer time than any record of it has; a search believes the ninth."""
    log = open_log(SimulatedDisk().root)
    for _ in range(12):
        batch = bytearray(make_batch(timestamp_ms=NOW_MS))
        header = check_batch(memoryview(batch))
        write_header(batch, header._replace(max_timestamp_ms=NOW_MS + 1000))
        append(log, bytes(batch))
    assert log.offset_for_time(NOW_MS + 500, log.written_offset) == (8, NOW_MS + 1000)


def test_batches_without_records_are_no_answer() -> None:
    """Compaction leaves such, with the time of what they held."""
    log = open_log(SimulatedDisk().root)
    for _ in range(12):
        header = check_batch(memoryview(bytearray(make_batch(timestamp_ms=NOW_MS + 1000))))
        append(log, bytes(empty_batch(header)))
    append(log, make_batch(timestamp_ms=NOW_MS))
    assert log.offset_for_time(NOW_MS + 500, log.written_offset) is None
    append(log, make_batch(timestamp_ms=NOW_MS + 700))
    assert log.offset_for_time(NOW_MS + 500, log.written_offset) == (13, NOW_MS + 700)


def test_a_batch_of_too_many_records_is_named_by_its_first() -> None:
    log = open_log(SimulatedDisk().root)
    builder = BatchBuilder(1 << 20)
    for number in range(100_001):
        builder.append(NOW_MS + (number > 0), None, None)
    append(log, bytes(builder.build()))
    assert log.offset_for_time(NOW_MS + 1, log.written_offset) == (0, NOW_MS + 1)


# --- gaps and a start of its own ---------------------------------------------------------------


def thinned() -> tuple[Log, Records]:
    """As `filled`, but two of three batches of every sealed segment are gone, one has only
    its last left, and the log begins inside a batch."""
    log, records = filled()
    flush(log)
    emptied = log.sealed_segments()[2]

    def keep(header: BatchHeader) -> bool:
        is_emptied = emptied.first_offset <= header.base_offset < emptied.next_offset
        return not is_emptied and header.base_offset % 9 == 0

    for segment in log.sealed_segments():
        thin_out(log, [segment], keep)
    delete_records(log, 19)
    left = {
        offset
        for header, _ in read_all(log)
        for offset in range(header.base_offset, header.next_offset)
    }
    return log, [record for record in records if record[0] in left and record[0] >= 19]


def test_times_are_found_among_gaps_and_from_the_start_on() -> None:
    log, records = thinned()
    assert 0 < len(records) < 120
    for timestamp_ms in range(NOW_MS - 120, NOW_MS + 620, 3):
        expected = next((found for found in records if found[1] >= timestamp_ms), None)
        assert log.offset_for_time(timestamp_ms, log.written_offset) == expected


# --- the newest record -------------------------------------------------------------------------


def newest(records: Records) -> tuple[int, int] | None:
    return max(records, key=lambda record: record[1]) if records else None


def test_the_first_record_with_the_newest_time() -> None:
    log, records = filled()
    for limit in range(0, log.written_offset + 1, 3):
        assert log.max_timestamp(limit) == newest(records[:limit])
    latest = make_batch(timestamp_ms=NOW_MS + 10_000)
    (offset, *_) = append(log, latest, latest)
    assert log.max_timestamp(log.written_offset) == (offset, NOW_MS + 10_000)


def test_the_newest_of_what_is_left() -> None:
    log, records = thinned()
    for limit in range(21, log.written_offset + 1, 3):
        expected = newest([record for record in records if record[0] < limit])
        assert log.max_timestamp(limit) == expected


def test_the_newest_may_have_been_deleted() -> None:
    """The index still counts it, in the first segment; the batches after it are looked at."""
    log = open_log(SimulatedDisk().root)
    for age_ms in (5, 0, 9, 3, 3, 7):
        append(log, make_batch(timestamp_ms=NOW_MS - age_ms))
    delete_records(log, 2)
    assert log.max_timestamp(6) == (3, NOW_MS - 3)
    assert log.max_timestamp(3) == (2, NOW_MS - 9)


def test_a_batch_that_begins_before_the_start_may_have_lost_its_newest() -> None:
    log = open_log(SimulatedDisk().root)
    builder = BatchBuilder(1 << 20)
    for age_ms in (0, 5, 3, 4):
        builder.append(NOW_MS - age_ms, None, None)
    append(log, bytes(builder.build()))
    assert log.max_timestamp(4) == (0, NOW_MS)
    delete_records(log, 1)
    assert log.max_timestamp(4) == (2, NOW_MS - 3)
    append(log, make_batch(timestamp_ms=NOW_MS - 2), make_batch(timestamp_ms=NOW_MS - 9))
    assert log.max_timestamp(4) == (2, NOW_MS - 3)
    assert log.max_timestamp(6) == (4, NOW_MS - 2)
    log.writer.roll()
    delete_records(log, 3)
    assert log.max_timestamp(4) == (3, NOW_MS - 4)
    assert log.max_timestamp(6) == (4, NOW_MS - 2)


def test_what_was_deleted_is_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be most of a segment, and the loop waits."""
    log = open_log(SimulatedDisk().root, replace(CONFIG, segment_bytes=1 << 30))
    append(log, *(make_batch(timestamp_ms=NOW_MS + number) for number in range(3_000)))
    steps = 0

    def counted(buffer: Buffer, position: int = 0) -> BatchHeader:
        nonlocal steps
        steps += 1
        return read_header(buffer, position)

    monkeypatch.setattr(scan, "read_header", counted)
    for start_offset in (1_000, 2_900):
        delete_records(log, start_offset)
        assert log.offset_for_time(0, 3_000) == (start_offset, NOW_MS + start_offset)
        assert log.offset_for_time(NOW_MS + 2_950, 3_000) == (2_950, NOW_MS + 2_950)
        assert log.max_timestamp(3_000) == (2_999, NOW_MS + 2_999)
        assert log.max_timestamp(2_960) == (2_959, NOW_MS + 2_959)
    assert steps < 150


def test_no_record_has_a_time() -> None:
    log = open_log(SimulatedDisk().root)
    assert log.max_timestamp(0) is None
    append(log, bytes(build_batch([(None, b"x")], timestamp_ms=-1)))
    assert log.max_timestamp(1) is None


def test_the_newest_batch_is_named_if_it_cannot_be_opened() -> None:
    log = open_log(SimulatedDisk().root)
    bomb = build_batch([(None, bytes(33 * MIB)), (None, b"x")], timestamp_ms=NOW_MS, codec=4)
    append(log, make_batch(timestamp_ms=NOW_MS - 10), bytes(bomb))
    assert log.max_timestamp(log.written_offset) == (1, NOW_MS)


# --- where terms end ---------------------------------------------------------------------------


def with_terms(*terms: int) -> Log:
    """Three batches of two records of each term, in several segments."""
    log = open_log(SimulatedDisk().root)
    for term in terms:
        for _ in range(3):
            stage(log, make_batch(b"x" * 200, records=2), term)
            log.writer.write_staged(NOW_MS)
    flush(log)
    return log


def test_a_term_ends_where_the_next_larger_one_begins() -> None:
    """As Kafka's OffsetForLeaderEpoch: the largest term not after the asked one."""
    log = with_terms(2, 3, 7)
    assert log.segment_count == 3
    assert [log.end_offset_for_term(term) for term in (0, 1, 2, 3, 5, 6, 7, 9)] == [
        (0, 0),
        (1, 0),
        (2, 6),
        (3, 12),
        (3, 12),
        (3, 12),
        (7, 18),
        (7, 18),
    ]
    assert open_log(SimulatedDisk().root).end_offset_for_term(4) == (4, 0)


def test_terms_are_found_among_many_segments_without_reading_them() -> None:
    log = with_terms(*range(0, 40, 2))
    for _ in range(2):
        log.chain.drop_idle_files()
    for term in range(39):
        assert log.end_offset_for_term(term) == (term // 2 * 2, (term // 2 + 1) * 6)
        assert sum(segment.index_loaded for segment in log.chain.segments) <= 2
        for _ in range(2):
            log.chain.drop_idle_files()


def test_terms_end_among_gaps_with_what_is_left() -> None:
    log = with_terms(2, 3, 7, 8)
    segments = log.sealed_segments()
    thin_out(log, segments[:1], lambda header: header.base_offset >= 2)
    thin_out(log, segments[1:3], lambda header: header.base_offset == 12)
    found = [log.end_offset_for_term(term) for term in (1, 2, 3, 7, 8)]
    assert found == [(1, 2), (2, 12), (2, 12), (7, 18), (8, 24)]
