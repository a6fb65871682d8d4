"""Cutting a log beside the loop: what is left can be read meanwhile, and no crash leaves a gap."""

from __future__ import annotations

from itertools import count
from typing import Literal

import pytest

from penstock.model.errors import OffsetOutOfRange, StorageFailed
from penstock.storage.log.cutting import ResetJob, TruncateJob
from penstock.storage.log.log import Log
from tests.kit.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.kit.storage.logs import append, flush, make_batch, open_log, read_all

BATCH = make_batch(b"x" * 300, records=2)


def filled(disk: SimulatedDisk) -> Log:
    """Nine batches of two offsets in several segments, the last of which is not sealed."""
    log = open_log(disk.root)
    append(log, *[BATCH] * 7)
    flush(log)
    append(log, *[BATCH] * 2)
    assert log.segment_count > 2
    return log


def offsets(log: Log) -> list[int]:
    return [header.base_offset for header, _ in read_all(log)]


@pytest.mark.parametrize("offset", [0, 2, 6, 10, 16, 18])
def test_what_is_left_can_be_read_while_the_rest_is_taken_away(offset: int) -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.cutter.truncate_job(offset)
    assert log.cutter.is_changing
    assert log.written_offset == offset
    assert offsets(log) == list(range(0, offset, 2)), "before the job runs"
    log.writer.roll()
    log.chain.drop_idle_files()
    job.run()
    assert offsets(log) == list(range(0, offset, 2)), "and before it is known to be over"
    log.cutter.finish_change(job)
    assert append(log, BATCH) == [offset]
    flush(log)
    assert open_log(disk.after_crash("lost").root).next_offset == offset + 2


def test_nothing_is_written_while_the_end_is_taken_off() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.cutter.truncate_job(10)
    with pytest.raises(AssertionError, match="cut"):
        append(log, BATCH)
    job.run()
    log.cutter.finish_change(job)
    assert offsets(log) == list(range(0, 10, 2))


def test_nothing_of_a_log_that_begins_anew_can_be_read() -> None:
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.cutter.reset_job(50)
    for _ in range(2):
        assert (log.first_offset, log.start_offset, log.written_offset) == (50, 50, 50)
        with pytest.raises(OffsetOutOfRange):
            log.read(4, 100, 50)
        assert [segment.size_bytes for segment in log.segments()] == [0]
        log.writer.roll()
        job.run()
    log.cutter.finish_change(job)
    assert append(log, BATCH) == [50]


@pytest.mark.parametrize("offset", [2, 10, 16])
@pytest.mark.parametrize("persistence", ["lost", "kept", 1, 2])
def test_a_crash_at_any_step_leaves_a_log_without_a_gap(
    offset: int, persistence: Literal["lost", "kept"] | int
) -> None:
    for operation in count(1):
        disk = SimulatedDisk()
        log = filled(disk)
        flush(log)
        disk.crash_at(len(disk.operations) + operation)
        try:
            job = log.cutter.truncate_job(offset)
            job.run()
        except SimulatedCrash:
            found = open_log(disk.after_crash(persistence).root)
            assert offset <= found.next_offset <= 18
            assert offsets(found) == list(range(0, found.next_offset, 2))
        else:
            log.cutter.finish_change(job)
            assert operation > 2
            return


def test_a_job_that_fails_or_has_not_run_is_the_end() -> None:
    for has_run in (True, False):
        disk = SimulatedDisk()
        log = filled(disk)
        job: TruncateJob | ResetJob = log.cutter.truncate_job(2)
        if has_run:
            disk.fail_next("truncate")
            job.run()
        with pytest.raises(StorageFailed, match="truncating disk"):
            log.cutter.finish_change(job)
        assert log.failed
    disk = SimulatedDisk()
    log = filled(disk)
    job = log.cutter.reset_job(50)
    disk.fail_next("remove")
    job.run()
    with pytest.raises(StorageFailed, match="emptying disk"):
        log.cutter.finish_change(job)


def test_the_name_of_a_file_that_was_only_cut_is_not_taken_for_durable() -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH, BATCH)
    log.cutter.truncate(2)
    flush(log)
    assert open_log(disk.after_crash("lost").root).next_offset == 2
