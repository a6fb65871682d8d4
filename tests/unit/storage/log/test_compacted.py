"""The mark that a log may have gaps, and how a log comes by them."""

from __future__ import annotations

import pytest

from penstock.model.errors import StorageFailed
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL, is_compacted
from penstock.storage.log.log import Log
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import (
    CONFIG,
    NOW_MS,
    append,
    flush,
    make_batch,
    open_log,
    read_all,
    split,
    thin_out,
)

BATCH = make_batch(b"x" * 300, records=2)
BIG = make_batch(b"x" * 1000)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk.root)


def test_the_journal_is_the_mark_whatever_it_holds() -> None:
    disk = SimulatedDisk()
    assert not is_compacted(disk.root)
    assert not open_log(disk.root).is_compacted
    write_journal(disk.root, COMPACTION_JOURNAL, b"")
    disk.flip_bit(COMPACTION_JOURNAL, 3, 0)
    assert is_compacted(disk.root)
    assert open_log(disk.root).is_compacted


# --- in a log ------------------------------------------------------------------------------------


def test_held_segments_are_read_while_their_files_go(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    before = read_all(log)
    held = log.sealed_segments()[1:3]
    for _ in range(2):
        log.chain.drop_idle_files()
    write_journal(disk.root, COMPACTION_JOURNAL, b"")
    assert log.cutter.hold(held)
    for name in [name for segment in held for name in segment.file_names()]:
        disk.root.remove(name)
    for _ in range(2):
        log.chain.drop_idle_files()
    assert read_all(log) == before
    assert [segment.max_timestamp_ms for segment in log.segments()] == [NOW_MS + 1] * 5
    assert len(log.cutter.delete_before(100)) == 1, "only what comes before the held ones"
    log.cutter.let_go(held)
    with pytest.raises(StorageFailed, match="deleting from disk"):
        log.cutter.delete_before(100)


def test_a_compacted_segment_takes_the_place_of_several(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    kept = log.read(4, 1 << 20, 18)
    thin_out(log, log.sealed_segments()[1:3], lambda header: header.base_offset == 6)
    assert log.is_compacted
    assert [header.base_offset for header, _ in read_all(log)] == [0, 2, 6, 10, 12, 14, 16]
    assert [segment.first_offset for segment in log.segments()] == [0, 4, 12, 16]
    assert [header.base_offset for header, _ in split(kept.read())] == [4, 6]
    clean_end = log.close()
    again = Log.open(disk.root, CONFIG, clean_end=clean_end)
    assert [header.base_offset for header, _ in read_all(again)] == [0, 2, 6, 10, 12, 14, 16]


def test_segments_that_are_no_longer_there_are_not_held(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    sealed = log.sealed_segments()
    write_journal(disk.root, COMPACTION_JOURNAL, b"")
    log.cutter.delete_before(4)
    assert not log.cutter.hold(sealed[:2])
    assert not log.cutter.hold([sealed[1], sealed[3]])
    assert not any(segment.held for segment in sealed)
    disk.root.remove(sealed[2].stem + ".log")
    log.chain.drop_idle_files()
    log.chain.drop_idle_files()
    with pytest.raises(StorageFailed, match="No such file"):
        log.cutter.hold(sealed[1:3])
    assert not any(segment.held for segment in sealed)


def test_a_gap_without_the_mark_is_our_own_mistake(log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    with pytest.raises(AssertionError, match="without a mark"):
        log.cutter.hold(log.sealed_segments()[:1])


@pytest.mark.parametrize("offset", [8, 10, 16, 18])
def test_truncate_behind_gaps(disk: SimulatedDisk, log: Log, offset: int) -> None:
    """What is cut was never committed, so it was never compacted."""
    append(log, *[BATCH] * 9)
    flush(log)
    thin_out(log, log.sealed_segments()[:2], lambda header: header.base_offset == 2)
    clean_end = log.close()
    log = Log.open(disk.root, CONFIG, clean_end=clean_end)
    log.cutter.truncate(offset)
    expected = [2, 6, *range(8, offset, 2)]
    assert [header.base_offset for header, _ in read_all(log)] == expected
    assert append(log, BIG) == [offset]
    flush(log)
    found = open_log(disk.after_crash("lost").root)
    assert [header.base_offset for header, _ in read_all(found)] == [*expected, offset]
