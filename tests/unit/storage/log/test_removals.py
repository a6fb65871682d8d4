"""Why offsets are gone: remembered, bounded, and never a reason to refuse a log."""

from __future__ import annotations

import json

import pytest

from penstock.model.errors import StorageFailed
from penstock.model.limits import REMOVALS_MAX
from penstock.model.removal import Removal, RemovalCause
from penstock.storage.files.journal import write_journal
from penstock.storage.log.log import Log
from penstock.storage.log.removals import (
    REMOVALS_JOURNAL,
    HistoryJob,
    RemovalHistory,
    read_entries,
    sentence,
    time_text,
)
from tests.kit.simulated_disk import Operation, SimulatedDisk
from tests.kit.storage.logs import append, delete_records, flush, make_batch, open_log

BATCH = make_batch(b"x" * 300, records=2)
NOON_MS = 1_700_000_000_000


def removal(
    first: int,
    end: int,
    cause: RemovalCause = "retention_time",
    *,
    at_ms: int = NOON_MS,
    detail: str = "retention_ms is 60000",
) -> Removal:
    return Removal(first_offset=first, end_offset=end, cause=cause, at_ms=at_ms, detail=detail)


def write(history: RemovalHistory) -> None:
    job = history.job()
    assert job is not None
    job.run()
    assert job.error is None
    history.finish(job)


def spans(history: RemovalHistory) -> list[tuple[int, int]]:
    return [(one.first_offset, one.end_offset) for one in history.latest()]


# --- the journal -------------------------------------------------------------------------------


def test_what_was_written_is_found_again() -> None:
    """R-SPK-3: which offsets, why and when, also after a crash."""
    disk = SimulatedDisk()
    history = RemovalHistory(disk.root)
    assert history.latest() == []
    causes: list[RemovalCause] = ["retention_time", "retention_size", "deleted", "truncated"]
    told = [removal(10 * n, 10 * n + 10, cause) for n, cause in enumerate(causes)]
    history.add(told)
    assert history.latest() == told, "before it is durable"
    write(history)
    assert RemovalHistory(disk.after_crash("lost").root).latest() == told


def test_a_job_is_a_failure_until_it_has_ended() -> None:
    disk = SimulatedDisk()
    job = HistoryJob(disk.root, ())
    errors = [job.error]
    job.run()
    errors.append(job.error)
    assert [error is None for error in errors] == [False, True]


def test_one_job_at_a_time_and_none_without_news() -> None:
    history = RemovalHistory(SimulatedDisk().root)
    assert history.job() is None
    history.add([])
    assert history.job() is None
    history.add([removal(0, 5)])
    job = history.job()
    assert job is not None
    history.add([removal(5, 7)])
    assert history.job() is None
    job.run()
    history.finish(job)
    write(history)
    assert history.job() is None
    assert spans(history) == [(0, 5), (5, 7)]


@pytest.mark.parametrize("operation", ["flush folder", "flush", "rename"])
def test_what_could_not_be_written_goes_with_the_next(
    operation: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    history = RemovalHistory(disk.root)
    history.add([removal(0, 5)])
    job = history.job()
    assert job is not None
    disk.fail_next(operation)
    job.run()
    assert isinstance(job.error, StorageFailed)
    history.finish(job)
    assert "Removals of disk are not written" in caplog.text
    assert history.job() is None, "a failing disk is not asked again and again"
    history.add([removal(5, 7)])
    write(history)
    assert spans(RemovalHistory(disk.root)) == [(0, 5), (5, 7)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff",
        b"7",
        b"{}",
        b"[7]",
        b"[[]]",
        *(
            json.dumps([row]).encode()
            for row in (
                [0, 5, "retention_time", 1, 1],
                [5, 5, "retention_time", 1, 1, ""],
                [-1, 5, "retention_time", 1, 1, ""],
                [0, 2**63, "retention_time", 1, 1, ""],
                [0, True, "retention_time", 1, 1, ""],
                [0, 5, "boredom", 1, 1, ""],
                [0, 5, "retention_time", 2**60, 1, ""],
                [0, 5, "retention_time", 1, -1, ""],
                [0, 5, "retention_time", 1.5, 1, ""],
                [0, 5, "retention_time", 1, 1, 7],
            )
        ),
    ],
)
def test_a_journal_of_anything_else_is_dropped(
    payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    write_journal(disk.root, REMOVALS_JOURNAL, payload)
    assert read_entries(disk.root) == ()
    assert "disk/removals.journal is dropped" in caplog.text
    history = RemovalHistory(disk.root)
    history.add([removal(0, 5)])
    write(history)
    assert spans(RemovalHistory(disk.root)) == [(0, 5)]


def test_damage_does_not_refuse_the_log(caplog: pytest.LogCaptureFixture) -> None:
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, *[BATCH] * 3)
    log.removals.keep(removal(0, 1))
    log.close()
    disk.flip_bit(REMOVALS_JOURNAL, 15, 1)
    log = open_log(disk.root)
    assert log.next_offset == 6
    assert log.removals.latest() == []
    assert "removals.journal is dropped" in caplog.text


# --- bounds ------------------------------------------------------------------------------------


def test_the_oldest_of_one_cause_are_merged_when_the_list_is_full() -> None:
    history = RemovalHistory(SimulatedDisk().root)
    for number in range(REMOVALS_MAX):
        history.add([removal(number, number + 1, at_ms=NOON_MS + 1000 * number)])
    assert len(history.latest()) == REMOVALS_MAX
    assert history.latest()[0] == removal(0, 1)
    for number in range(REMOVALS_MAX, REMOVALS_MAX + 10):
        history.add([removal(number, number + 1, at_ms=NOON_MS + 1000 * number)])
    first, second, *_ = history.latest()
    assert first == removal(
        0,
        11,
        at_ms=NOON_MS + 10_000,
        detail="retention_ms is 60000, in steps since 2023-11-14T22:13:20Z",
    )
    assert second == removal(11, 12, at_ms=NOON_MS + 11_000)
    assert len(history.latest()) == REMOVALS_MAX
    write(history)
    assert RemovalHistory(history._directory).latest() == history.latest()


def test_a_merged_one_says_that_the_setting_was_another() -> None:
    history = RemovalHistory(SimulatedDisk().root)
    history.add([removal(0, 1, detail="retention_ms is 5")])
    for number in range(1, REMOVALS_MAX + 2):
        history.add([removal(number, number + 1)])
    assert history.latest()[0] == removal(0, 3, detail="retention_ms is 60000 at last")


def test_others_are_not_merged_and_the_oldest_is_forgotten() -> None:
    """Another cause, or offsets between: as one they would say what is not so."""
    history = RemovalHistory(SimulatedDisk().root)
    causes: list[RemovalCause] = ["retention_time", "retention_size"]
    for number in range(REMOVALS_MAX):
        history.add([removal(number, number + 1, causes[number % 2])])
    history.add([removal(100, 101, causes[1])])
    assert spans(history)[0] == (1, 2)
    assert spans(history)[-2:] == [(REMOVALS_MAX - 1, REMOVALS_MAX), (100, 101)]


def test_what_was_cut_off_is_not_merged() -> None:
    """The offsets in between were given to other messages."""
    history = RemovalHistory(SimulatedDisk().root)
    for number in range(REMOVALS_MAX + 1):
        history.add([removal(number, number + 1, "truncated")])
    assert spans(history)[:2] == [(1, 2), (2, 3)]


# --- for people --------------------------------------------------------------------------------


def test_sentences() -> None:
    assert sentence(removal(0, 100)) == (
        "offsets 0 to 99 were removed by retention at 2023-11-14T22:13:20Z (retention_ms is 60000)"
    )
    assert sentence(removal(7, 8, "deleted", detail="on request")) == (
        "offset 7 was deleted at 2023-11-14T22:13:20Z (on request)"
    )
    assert "were cut off" in sentence(removal(7, 9, "truncated"))
    assert time_text(0) == "1970-01-01T00:00:00Z"


def test_an_offset_is_explained_by_the_latest_removal_that_took_it() -> None:
    history = RemovalHistory(SimulatedDisk().root)
    first, cut, second = removal(0, 5), removal(10, 20, "truncated"), removal(5, 12)
    history.add([first, cut, second])
    assert history.explain(4, start_offset=12) == first
    assert history.explain(5, start_offset=12) == history.explain(11, start_offset=12) == second
    assert history.explain(20, start_offset=12) == cut, "somebody had read to the old end"
    assert history.explain(21, start_offset=12) is None
    history = RemovalHistory(SimulatedDisk().root)
    assert history.explain(4, start_offset=12) is None


# --- in a log ----------------------------------------------------------------------------------


def test_what_a_crash_took_along_is_not_called_deleted(caplog: pytest.LogCaptureFixture) -> None:
    """With `os` durability records may be deleted before they are durable; the offsets that a crash
    takes go to other messages, which nobody deleted."""
    disk = SimulatedDisk()
    log = open_log(disk.root)
    append(log, BATCH)
    flush(log)
    append(log, *[BATCH] * 2)
    delete_records(log, 6)
    log.removals.keep(removal(0, 1, "deleted"))
    log.removals.keep(removal(1, 6, "deleted"))
    disk = disk.after_crash("lost")
    log = open_log(disk.root)
    assert (log.start_offset, log.next_offset) == (2, 2)
    assert spans(log.removals) == [(0, 1), (1, 2)]
    log.explain_cut(NOON_MS)
    log.explain_cut(NOON_MS)
    lost = removal(
        2,
        6,
        "truncated",
        detail="a crash lost the end of the log, which was not durable",
    )
    assert open_log(disk.after_crash("lost").root).removals.latest()[2:] == [lost]


@pytest.mark.parametrize("failing", ["rename", "truncate"])
def test_what_cannot_be_set_right_is_forgotten(
    failing: Operation, caplog: pytest.LogCaptureFixture
) -> None:
    disk = SimulatedDisk()
    history = RemovalHistory(disk.root)
    history.keep(removal(0, 6, "deleted"))
    disk.fail_next(failing)
    history.clip(2)
    assert "is forgotten" in caplog.text
    assert spans(history) == [(0, 2)]
    assert spans(RemovalHistory(disk.after_crash("lost").root)) == []


def test_removals_within_the_log_are_left_as_they_are() -> None:
    disk = SimulatedDisk()
    history = RemovalHistory(disk.root)
    history.add([removal(0, 2, "deleted"), removal(5, 9, "truncated")])
    write(history)
    operations = len(disk.operations)
    history.clip(2)
    assert len(disk.operations) == operations
    assert spans(history) == [(0, 2), (5, 9)]


def test_nothing_is_read_before_somebody_asks() -> None:
    """A thousand partitions are opened without reading a journal for each."""
    disk = SimulatedDisk()
    write_journal(disk.root, REMOVALS_JOURNAL, b"[]")
    log: Log = open_log(disk.root)
    assert log.removals._entries is None
