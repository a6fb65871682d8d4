"""Offsets by time: exact to the record, whatever the order of the timestamps."""

from __future__ import annotations

from penstock.model.limits import MIB
from penstock.records.builder import build_batch, control_batch
from penstock.records.header import check_batch, stamp_append_time, write_header
from penstock.storage.log import Log
from penstock.testing.simulated_disk import SimulatedDisk
from tests.unit.storage.harness import NOW_MS, append, make_batch, open_log


def filled() -> tuple[Log, list[tuple[int, int]]]:
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


def test_lying_batches_are_opened_only_so_often() -> None:
    """A batch may say a newer time than any record of it has; a search believes the ninth."""
    log = open_log(SimulatedDisk().root)
    for _ in range(12):
        batch = bytearray(make_batch(timestamp_ms=NOW_MS))
        header = check_batch(memoryview(batch))
        write_header(batch, header._replace(max_timestamp_ms=NOW_MS + 1000))
        append(log, bytes(batch))
    assert log.offset_for_time(NOW_MS + 500, log.written_offset) == (8, NOW_MS + 1000)
