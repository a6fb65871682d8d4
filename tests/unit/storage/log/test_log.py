"""The log: staging, writing whole or not at all, flushing, reading, deleting, closing."""

from __future__ import annotations

import dataclasses
import errno
import sys
import threading
from pathlib import Path

import pytest

from penstock.model.errors import DiskFull, OffsetOutOfRange, StorageFailed
from penstock.records.header import check_batch
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.log.log import Log, LogConfig
from tests.kit.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.kit.storage.logs import (
    CONFIG,
    NOW_MS,
    append,
    flush,
    make_batch,
    open_log,
    read_all,
    split,
    stage,
)

BATCH = make_batch(b"x" * 300, records=2)
BIG = make_batch(b"x" * 1000)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk.root)


# --- writing -----------------------------------------------------------------------------------


def test_stage_gives_offsets_and_stamps_in_place(log: Log) -> None:
    view = memoryview(bytearray(BATCH))
    assert stage(log, BATCH) == 0
    assert log.writer.stage(check_batch(view), view, 7) == 2
    header = check_batch(view)
    assert (header.base_offset, header.term) == (2, 7)
    assert (log.next_offset, log.written_offset, log.size_bytes) == (4, 0, 0)
    log.writer.write_staged(NOW_MS)
    assert (log.next_offset, log.written_offset, log.size_bytes) == (4, 4, 2 * len(BATCH))


def test_a_copy_keeps_its_place_and_another_one_s_is_our_own_mistake(log: Log) -> None:
    source = open_log(SimulatedDisk().root)
    stage(source, BATCH, term=3)
    stage(source, BATCH, term=5)
    source.writer.write_staged(NOW_MS)
    for header, batch in split(source.read(0, 1 << 20, 4).read()):
        log.writer.stage_copy(header, memoryview(batch))
    with pytest.raises(AssertionError):
        log.writer.stage_copy(header, memoryview(batch))
    log.writer.write_staged(NOW_MS)
    assert [(header.base_offset, header.term) for header, _ in read_all(log)] == [(0, 3), (2, 5)]


def test_what_is_staged_can_be_kept_beyond_the_turn(log: Log) -> None:
    buffer = bytearray(BATCH)
    view = memoryview(buffer)
    log.writer.stage(check_batch(view), view, 1)
    log.writer.own_staged()
    buffer[:] = bytes(len(buffer))
    log.writer.write_staged(NOW_MS)
    assert len(read_all(log)) == 1


def test_all_staged_batches_are_one_write(disk: SimulatedDisk, log: Log) -> None:
    start = len(disk.operations)
    append(log, BATCH, BATCH)
    assert disk.operations[start:] == ["append disk/00000000000000000000.open.log"]
    log.writer.write_staged(NOW_MS)
    assert len(disk.operations) == start + 1


def test_segments_roll_before_they_grow_too_large(log: Log) -> None:
    """R-STO-1: sequential segments, each named by its first offset."""
    append(log, *[BATCH] * 12)
    assert [segment.size_bytes for segment in log.segments()] == [2 * len(BATCH)] * 6
    assert [segment.first_offset for segment in log.segments()] == [0, 4, 8, 12, 16, 20]
    assert [header.base_offset for header, _ in read_all(log)] == list(range(0, 24, 2))


def test_a_log_never_loses_its_beginning_and_keeps_what_follows() -> None:
    """R-STO-6: whichever names a crash left before the first flush. A producer whose last batch is
    there is believed to have all of them there."""
    for seed in range(40):
        disk = SimulatedDisk()
        append(open_log(disk.root), *[BATCH] * 6)
        found = open_log(disk.after_crash(seed).root)
        assert found.first_offset == 0
        offsets = [header.base_offset for header, _ in read_all(found)]
        assert offsets == list(range(0, 2 * len(offsets), 2))


def test_a_batch_larger_than_a_segment_has_one_for_itself(log: Log) -> None:
    huge = make_batch(b"x" * 5000)
    append(log, huge, BATCH, huge)
    assert [segment.size_bytes for segment in log.segments()] == [len(huge), len(BATCH), len(huge)]


def test_segments_roll_by_age(log: Log) -> None:
    append(log, BATCH, now_ms=NOW_MS)
    append(log, BATCH, now_ms=NOW_MS + CONFIG.segment_ms - 1)
    assert log.segment_count == 1
    assert not log.writer.is_roll_due(NOW_MS + CONFIG.segment_ms - 1)
    assert log.writer.is_roll_due(NOW_MS + CONFIG.segment_ms)
    append(log, BATCH, now_ms=NOW_MS + CONFIG.segment_ms)
    assert log.segment_count == 2


def test_segments_roll_when_told_to(log: Log) -> None:
    append(log, BATCH)
    log.writer.roll()
    assert log.segment_count == 2
    log.writer.roll()
    assert log.segment_count == 2, "an empty segment is not rolled"


def test_age_is_known_after_a_restart(disk: SimulatedDisk, log: Log) -> None:
    append(log, make_batch(timestamp_ms=NOW_MS))
    log.close()
    assert open_log(disk.root).writer.is_roll_due(NOW_MS + CONFIG.segment_ms)
    assert not open_log(disk.root).writer.is_roll_due(NOW_MS + CONFIG.segment_ms - 1)


def test_a_segment_spans_what_32_bits_hold(disk: SimulatedDisk) -> None:
    """Only the offsets count here: a batch may stand for many of them after compaction."""
    log = open_log(disk.root)
    header = check_batch(memoryview(BATCH))._replace(last_offset_delta=2**31 - 1)
    for _ in range(3):
        view = memoryview(bytearray(BATCH))
        log.writer.stage(header, view, 0)
    log.writer.write_staged(NOW_MS)
    assert [segment.first_offset for segment in log.segments()] == [0, 2**31, 2**32]


def test_config_can_be_replaced(log: Log) -> None:
    append(log, BATCH)
    log.writer.config = dataclasses.replace(CONFIG, segment_bytes=1 << 20)
    append(log, *[BATCH] * 10)
    assert log.segment_count == 1


# --- failing writes ----------------------------------------------------------------------------


def test_a_full_disk_undoes_everything_staged(disk: SimulatedDisk, log: Log) -> None:
    """R-STO-6: all or nothing, in the files, the offsets and the indexes."""
    append(log, BATCH, BATCH, BATCH)
    before = disk.files()
    positions = list(log.chain.segments[-1].index.positions)
    disk.capacity_bytes = log.size_bytes + 4 * len(BATCH)
    with pytest.raises(DiskFull, match="free some room"):
        append(log, *[BATCH] * 8)
    assert disk.files() == before
    assert (log.next_offset, log.written_offset, log.segment_count) == (6, 6, 2)
    assert list(log.chain.segments[-1].index.positions) == positions
    assert not log.failed
    disk.capacity_bytes = None
    assert append(log, BATCH) == [6]
    assert len(read_all(log)) == 4
    assert flush(log) == 8


@pytest.mark.parametrize("kind", ["append", "create"])
def test_a_failed_write_is_undone(disk: SimulatedDisk, log: Log, kind: str) -> None:
    append(log, BATCH)
    before = disk.files()
    disk.fail_next(kind)  # type: ignore[arg-type]
    with pytest.raises(StorageFailed, match="writing to disk"):
        append(log, BIG)
    assert disk.files() == before
    assert append(log, BATCH) == [2]


@pytest.mark.parametrize("kind", ["truncate", "remove", "flush folder"])
def test_an_undo_that_fails_makes_the_log_read_only(
    disk: SimulatedDisk, log: Log, kind: str
) -> None:
    append(log, BATCH)
    flush(log)
    disk.fail_next("append", errno.ENOSPC)
    disk.fail_next(kind)  # type: ignore[arg-type]
    with pytest.raises(DiskFull):
        append(log, BIG)
    assert log.failed
    with pytest.raises(StorageFailed, match="undoing a write"):
        stage(log, BATCH)
    with pytest.raises(StorageFailed):
        log.writer.flush_job(include_active=True)
    with pytest.raises(StorageFailed):
        log.writer.roll()
    with pytest.raises(StorageFailed):
        log.cutter.truncate(0)
    assert [header.base_offset for header, _ in read_all(log)] == [0]
    assert log.close() is None


def test_what_is_abandoned_leaves_no_hole_whatever_a_crash_brings_back() -> None:
    """R-STO-6: of several segments that go, an earlier one must not go before a later one."""
    for seed in range(40):
        disk = SimulatedDisk()
        log = open_log(disk.root)
        append(log, *[BATCH] * 5)
        flush(log)
        append(log, *[BATCH] * 8)
        disk.fail_next("flush folder")
        with pytest.raises(StorageFailed):
            flush(log)
        log.cutter.abandon(8)
        found = open_log(disk.after_crash(seed).root)
        offsets = [header.base_offset for header, _ in read_all(found)]
        assert offsets == list(range(0, 2 * len(offsets), 2))
        assert len(offsets) >= 4


# --- flushing ----------------------------------------------------------------------------------


def test_a_flush_covers_what_was_written_before_it(disk: SimulatedDisk, log: Log) -> None:
    append(log, BATCH)
    job = log.writer.flush_job(include_active=True)
    assert job is not None
    append(log, *[BATCH] * 4)
    job.run()
    assert log.writer.finish_flush(job) == 2
    assert flush(log) == 10
    assert log.writer.flush_job(include_active=True) is None
    assert open_log(disk.after_crash("lost").root).next_offset == 10


def test_without_the_active_segment_only_rolled_ones_are_flushed(
    disk: SimulatedDisk, log: Log
) -> None:
    append(log, BATCH)
    assert flush(log, include_active=False) is None
    append(log, *[BATCH] * 4)
    assert flush(log, include_active=False) == 8
    assert [segment.sealed for segment in log.segments()] == [True, True, False]
    assert open_log(disk.after_crash("lost").root).next_offset == 8


def test_a_failed_flush_is_never_retried_as_a_success(disk: SimulatedDisk, log: Log) -> None:
    """The kernel drops what it could not write and reports the next flush as a success."""
    append(log, BATCH)
    assert flush(log) == 2
    append(log, BATCH)
    disk.fail_next("flush")
    with pytest.raises(StorageFailed, match="read-only since a flush failed"):
        flush(log)
    assert log.failed
    with pytest.raises(StorageFailed, match="read-only"):
        stage(log, BATCH)
    with pytest.raises(StorageFailed, match="read-only"):
        log.writer.flush_job(include_active=True)
    assert [header.base_offset for header, _ in split(log.read(0, 1 << 20, 2).read())] == [0]
    assert log.close() is None
    assert open_log(disk.after_crash("kept").root).next_offset == 2


def test_reads_and_appends_go_on_while_a_thread_flushes(tmp_path: Path) -> None:
    """On a real disk; the job touches nothing that the loop changes."""
    log = open_log(OsDirectory(str(tmp_path)))
    durable_offset = 0
    for _ in range(30):
        append(log, BATCH)
        job = log.writer.flush_job(include_active=True)
        assert job is not None
        thread = threading.Thread(target=job.run)
        thread.start()
        append(log, *[BATCH] * 3)
        assert len(read_all(log)) == log.next_offset // 2
        thread.join()
        durable_offset = log.writer.finish_flush(job)
    assert durable_offset == log.next_offset - 6
    log.close()
    assert len(read_all(open_log(OsDirectory(str(tmp_path))))) == 120


# --- reading -----------------------------------------------------------------------------------


def test_reads_start_exactly_and_never_repeat_or_skip(log: Log) -> None:
    """R-STO-2: chunks of any size, over several segments."""
    append(log, *[BATCH] * 20)
    for max_bytes in (1, 500, 700, 1 << 20):
        assert [header.base_offset for header, _ in read_all(log, max_bytes)] == list(
            range(0, 40, 2)
        )


def test_the_end_is_empty_and_beyond_is_an_error(log: Log) -> None:
    append(log, BATCH, BATCH)
    assert log.read(4, 100, 4).length == 0
    assert log.read(2, 100, 2).length == 0
    for offset, limit in ((5, 4), (3, 2), (-1, 4)):
        with pytest.raises(OffsetOutOfRange, match=f"the partition has 0 to {limit}"):
            log.read(offset, 100, limit)


def test_bytes_between_is_exact_at_boundaries_and_near_elsewhere(log: Log) -> None:
    length = len(BATCH)
    append(log, *[BATCH] * 10)
    assert log.bytes_between(0, 20) == 10 * length
    assert log.bytes_between(20, 20) == 0
    for number in range(10):
        estimate = log.bytes_between(2 * number, 20)
        assert abs(estimate - (10 - number) * length) <= CONFIG.index_interval_bytes + length
        assert log.bytes_between(2 * number, 2 * number + 2) >= 1


def test_headers_from_any_offset(log: Log) -> None:
    append(log, *[BATCH] * 9)
    assert [header.base_offset for header in log.headers(0)] == list(range(0, 18, 2))
    assert [header.base_offset for header in log.headers(7)] == list(range(6, 18, 2))
    assert list(log.headers(18)) == []


def test_idle_files_are_let_go_and_come_back(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    read_all(log)
    log.chain.drop_idle_files()
    assert all(segment.index_loaded for segment in log.chain.segments)
    log.read(0, 1, 18)
    log.chain.drop_idle_files()
    loaded = [segment.index_loaded for segment in log.chain.segments]
    assert loaded == [True, False, False, False, True]
    assert len(read_all(log)) == 9


# --- removing ----------------------------------------------------------------------------------


def test_whole_sealed_segments_are_deleted(disk: SimulatedDisk, log: Log) -> None:
    """R-STO-5: indexes go with their segments."""
    append(log, *[BATCH] * 9)
    assert log.cutter.delete_before(100) == [], "nothing is sealed yet"
    flush(log)
    kept = log.read(0, 1, 18)
    jobs = log.cutter.delete_before(11)
    assert (len(jobs), log.start_offset, log.segment_count) == (2, 8, 3)
    for job in jobs:
        job.run()
    assert kept.read()
    assert all(int(name[:20]) >= 8 for name in disk.root.names())
    with pytest.raises(OffsetOutOfRange, match="has 8 to 18"):
        log.read(7, 1, 18)
    assert open_log(disk.root).start_offset == 8
    log.cutter.delete_before(100)
    assert (log.start_offset, log.segment_count) == (16, 1)


def test_a_deletion_that_the_disk_refuses_keeps_the_segment(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    disk.fail_next("rename")
    with pytest.raises(StorageFailed, match="deleting from disk"):
        log.cutter.delete_before(11)
    assert (log.start_offset, len(read_all(log))) == (0, 9)
    assert len(log.cutter.delete_before(11)) == 2


@pytest.mark.parametrize("offset", [0, 2, 4, 6, 10, 16, 18])
@pytest.mark.parametrize("flushed", [True, False])
def test_truncate(disk: SimulatedDisk, log: Log, offset: int, flushed: bool) -> None:
    append(log, *[BATCH] * 9)
    if flushed:
        flush(log)
    stage(log, BATCH)
    log.cutter.truncate(offset)
    assert log.next_offset == log.written_offset == offset
    assert [header.base_offset for header, _ in read_all(log)] == list(range(0, offset, 2))
    log.writer.write_staged(NOW_MS)
    assert append(log, BIG) == [offset]
    assert flush(log) == offset + 1
    assert open_log(disk.after_crash("lost").root).next_offset == offset + 1


def test_truncate_inside_a_batch_is_our_own_mistake(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    before = disk.files()
    with pytest.raises(AssertionError):
        log.cutter.truncate(3)
    assert disk.files() == before


def test_truncate_outside_is_an_error_and_a_failure_is_final(disk: SimulatedDisk, log: Log) -> None:
    append(log, BATCH)
    with pytest.raises(OffsetOutOfRange):
        log.cutter.truncate(3)
    disk.fail_next("truncate")
    with pytest.raises(StorageFailed, match="truncating disk"):
        log.cutter.truncate(0)
    assert log.failed


@pytest.mark.parametrize("offset", [3, 18, 50])
@pytest.mark.parametrize("flushed", [True, False])
def test_reset(disk: SimulatedDisk, log: Log, offset: int, flushed: bool) -> None:
    append(log, *[BATCH] * 9)
    if flushed:
        flush(log)
    log.cutter.reset(offset)
    assert (log.first_offset, log.start_offset, log.next_offset) == (offset, offset, offset)
    assert open_log(disk.after_crash("lost").root).next_offset == offset
    assert append(log, BATCH) == [offset]
    assert flush(log) == offset + 2
    found = open_log(disk.after_crash("lost").root)
    assert (found.first_offset, found.next_offset) == (offset, offset + 2)


def test_a_reset_that_is_cut_short_leaves_what_comes_before_it(disk: SimulatedDisk) -> None:
    """Whoever wants it asks again: it can see that the log starts too early."""
    for operation in range(1, 40):
        disk = SimulatedDisk()
        log = open_log(disk.root)
        append(log, *[BATCH] * 9)
        flush(log)
        disk.crash_at(len(disk.operations) + operation)
        try:
            log.cutter.reset(50)
        except SimulatedCrash:
            for persistence in ("lost", "kept", 1, 2, 3):
                found = open_log(disk.after_crash(persistence).root)
                assert found.first_offset == 0 or found.next_offset == 50
        else:
            assert operation > 8
            return


def test_a_reset_that_fails_is_final(disk: SimulatedDisk, log: Log) -> None:
    append(log, BATCH)
    disk.fail_next("remove")
    with pytest.raises(StorageFailed, match="emptying disk"):
        log.cutter.reset(9)
    assert log.failed


# --- opening and closing -----------------------------------------------------------------------


def test_close_makes_everything_durable(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 5)
    clean_end = log.close()
    assert clean_end is not None
    assert (clean_end.first_offset, clean_end.next_offset) == (8, 10)
    with pytest.raises(StorageFailed, match="closed"):
        stage(log, BATCH)
    found = disk.after_crash("lost")
    again = Log.open(found.root, CONFIG, clean_end=clean_end)
    assert len(read_all(again)) == 5
    assert append(again, BATCH) == [10]


def test_an_untouched_log_closes_without_a_write(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 5)
    clean_end = log.close()
    operations = len(disk.operations)
    assert Log.open(disk.root, CONFIG, clean_end=clean_end).close() == clean_end
    assert len(disk.operations) == operations


def test_an_unreadable_folder_is_a_typed_error(tmp_path: Path) -> None:
    with pytest.raises(StorageFailed, match=r"opening .*absent: No such file or directory"):
        open_log(OsDirectory(str(tmp_path / "absent")))


def test_an_idle_log_is_small(tmp_path: Path) -> None:
    """Thousands of partitions must fit: < 10 kB each, and no descriptor until it is used."""
    config = LogConfig(segment_bytes=1 << 28, segment_ms=1 << 40, index_interval_bytes=4096)
    log = Log.open(OsDirectory(str(tmp_path)), config)
    for _ in range(500):
        append(log, BATCH, BATCH)
    clean_end = log.close()
    log = Log.open(OsDirectory(str(tmp_path)), config, clean_end=clean_end)
    (segment,) = log.chain.segments
    assert segment._file is None
    slots = [getattr(owner, name) for owner in (log, segment) for name in owner.__slots__]
    assert sum(map(sys.getsizeof, (log, segment, *slots))) < 4096
