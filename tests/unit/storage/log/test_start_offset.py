"""A log's own start: durable, never back, refused if it cannot be read."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptLog, DiskFull, OffsetOutOfRange, StorageFailed
from penstock.storage.files.journal import write_journal
from penstock.storage.log.log import Log
from penstock.storage.log.start_offset import (
    START_JOURNAL,
    StartOffsetJob,
    read_start_offset,
    write_start_offset,
)
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import (
    append,
    delete_records,
    flush,
    make_batch,
    open_log,
    read_all,
)

BATCH = make_batch(b"x" * 300, records=2)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> Log:
    return open_log(disk.root)


def test_what_was_written_is_found_again() -> None:
    disk = SimulatedDisk()
    assert read_start_offset(disk.root) == 0
    write_start_offset(disk.root, 2**40)
    assert read_start_offset(disk.after_crash("lost").root) == 2**40


def test_a_job_is_a_failure_until_it_has_ended() -> None:
    disk = SimulatedDisk()
    job = StartOffsetJob(disk.root, 7)
    errors = [job.error]
    job.run()
    errors.append(job.error)
    assert [error is None for error in errors] == [False, True]
    assert read_start_offset(disk.after_crash("lost").root) == 7


def test_a_failed_job_keeps_its_error_and_the_old_offset() -> None:
    disk = SimulatedDisk()
    write_start_offset(disk.root, 3)
    disk.capacity_bytes = 25
    job = StartOffsetJob(disk.root, 7)
    job.run()
    assert isinstance(job.error, DiskFull)
    assert read_start_offset(disk.root) == 3


def test_damage_is_refused_not_forgotten() -> None:
    """Deleted records must not be shown again because a file cannot be read."""
    disk = SimulatedDisk()
    write_journal(disk.root, START_JOURNAL, b"four")
    with pytest.raises(CorruptLog, match=r"start\.journal holds 4 bytes"):
        read_start_offset(disk.root)
    write_start_offset(disk.root, 3)
    disk.flip_bit(START_JOURNAL, 15, 1)
    with pytest.raises(CorruptLog, match=r"start\.journal is damaged"):
        read_start_offset(disk.root)


# --- in a log ----------------------------------------------------------------------------------


def test_records_before_an_offset_are_gone_for_good(disk: SimulatedDisk, log: Log) -> None:
    """Inside a batch, too: what is handed out begins with that batch, as from any offset."""
    append(log, *[BATCH] * 9)
    flush(log)
    delete_records(log, 7)
    assert (log.start_offset, log.first_offset, log.size_bytes) == (7, 0, 9 * len(BATCH))
    assert [header.base_offset for header, _ in read_all(log)] == list(range(6, 18, 2))
    with pytest.raises(OffsetOutOfRange, match="has 7 to 18"):
        log.read(6, 1, 18)
    with pytest.raises(OffsetOutOfRange, match="has 7 to 18"):
        log.cutter.truncate(6)
    assert open_log(disk.after_crash("lost").root).start_offset == 7


def test_the_start_never_goes_back(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    flush(log)
    log.cutter.delete_before(11)
    delete_records(log, 3)
    assert (log.start_offset, log.first_offset) == (8, 8)
    delete_records(log, 13)
    assert log.cutter.delete_before(log.start_offset)
    assert (log.start_offset, log.first_offset) == (13, 12)
    assert open_log(disk.root).start_offset == 13


def test_a_start_that_is_not_durable_does_not_hold(disk: SimulatedDisk, log: Log) -> None:
    append(log, *[BATCH] * 9)
    disk.fail_next("rename")
    with pytest.raises(StorageFailed, match=r"writing disk/start\.journal"):
        delete_records(log, 7)
    assert (log.start_offset, log.failed) == (0, False)
    log.discard()
    with pytest.raises(StorageFailed, match="closed"):
        delete_records(log, 7)


def test_a_start_beyond_what_a_crash_left_hides_nothing_that_comes(disk: SimulatedDisk) -> None:
    """With `os` durability records may be deleted before they are durable."""
    log = open_log(disk.root)
    append(log, BATCH)
    flush(log)
    append(log, *[BATCH] * 2)
    delete_records(log, 6)
    found = disk.after_crash("lost")
    log = open_log(found.root)
    assert (log.start_offset, log.next_offset) == (2, 2)
    append(log, BATCH)
    log.close()
    assert open_log(found.root).start_offset == 2


def test_a_damaged_start_is_refused(disk: SimulatedDisk, log: Log) -> None:
    append(log, BATCH)
    delete_records(log, 1)
    disk.flip_bit(START_JOURNAL, 13, 0)
    with pytest.raises(CorruptLog, match=r"start\.journal is damaged"):
        open_log(disk.root)
