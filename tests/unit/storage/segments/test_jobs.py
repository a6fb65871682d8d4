"""Jobs for a pool thread: what they do to the disk, in which order, and how they fail."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import StorageFailed
from penstock.storage.segments.jobs import RemovalJob
from tests.kit.simulated_disk import SimulatedDisk
from tests.kit.storage.logs import append, flush, make_batch, open_log

BATCH = make_batch(b"x" * 400)


def kinds(disk: SimulatedDisk, since: int) -> list[str]:
    return [operation.split(" disk")[0] for operation in disk.operations[since:]]


def test_a_flush_makes_names_durable_then_data() -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH)
    start = len(disk.operations)
    assert flush(log) == 1
    assert kinds(disk, start) == ["flush folder", "flush"]
    append(log, BATCH)
    start = len(disk.operations)
    assert flush(log) == 2
    assert kinds(disk, start) == ["flush"]


def test_sealing_is_data_then_index_then_name_then_folder() -> None:
    """R-STO-1: a sealed name is there only when everything it promises is."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH)
    log.writer.roll()
    start = len(disk.operations)
    flush(log, include_active=False)
    index_file = ["create", "truncate", "append", "flush"]
    assert kinds(disk, start) == [
        "flush folder",
        "flush",
        *index_file,
        *index_file,
        "rename",
        "flush folder",
    ]


def test_an_index_without_room_does_not_stop_the_seal(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH)
    log.writer.roll()
    disk.fail_next("append", errno.ENOSPC)
    assert flush(log) == 1
    assert [segment.sealed for segment in log.segments()] == [True, False]
    assert "was not written" in caplog.text


@pytest.mark.parametrize("operation", ["flush", "flush folder", "rename"])
def test_a_failure_is_kept_for_the_log(operation: str) -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH)
    log.writer.roll()
    job = log.writer.flush_job(include_active=True)
    assert job is not None
    disk.fail_next(operation)  # type: ignore[arg-type]
    job.run()
    assert job.error is not None
    with pytest.raises(StorageFailed, match="read-only"):
        log.writer.finish_flush(job)


def test_removal_flushes_the_folder_first() -> None:
    disk = SimulatedDisk()
    for name in ("a.index", "a.log.deleted"):
        disk.root.open(name, create=True)
    start = len(disk.operations)
    job = RemovalJob(disk.root, ["a.index", "a.time", "a.log.deleted"])
    job.run()
    assert kinds(disk, start) == ["flush folder", "remove", "remove"]
    assert disk.root.names() == []


def test_a_removal_that_fails_is_left_to_the_next_recovery(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = SimulatedDisk()
    disk.fail_next("flush folder")
    RemovalJob(disk.root, ["a.log.deleted"]).run()
    assert "disk/a.log.deleted is not removed yet" in caplog.text


def test_a_job_that_did_not_run_to_its_end_made_nothing_durable() -> None:
    log = open_log(SimulatedDisk().root)
    append(log, BATCH)
    job = log.writer.flush_job(include_active=True)
    assert job is not None
    with pytest.raises(StorageFailed, match="read-only"):
        log.writer.finish_flush(job)
