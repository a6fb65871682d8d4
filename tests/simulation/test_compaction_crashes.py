"""A crash, or a failing disk, at every operation of a log's life with compactions.

The checker after each: what is found is the log as it was before or after the step that the crash
came in, never a mixture; no file is left over; indexes equal rebuilt ones; and the log can be
written to and compacted to the same end as without the crash.
"""

from __future__ import annotations

import contextlib
import functools
import itertools

import pytest

from penstock.model.errors import DiskFull, StorageError
from penstock.storage.compaction.cleaning import CleaningJob
from penstock.storage.compaction.compaction import Compaction, read_cleaned_offset
from penstock.storage.log.log import Log
from penstock.storage.log.verify import verify
from penstock.storage.segments.recovery import CLEANED_NAME
from penstock.storage.segments.segment import rebuild_index
from tests.kit.crashes import mixed
from tests.kit.simulated_disk import Operation, Persistence, SimulatedCrash, SimulatedDisk
from tests.kit.storage.compacting import (
    DELETE_RETENTION_MS,
    Entry,
    begin,
    compact,
    due,
    entries,
    keyed_batch,
    put,
    seal,
)
from tests.kit.storage.logs import CONFIG, NOW_MS
from tests.simulation.test_storage_crashes import columns

pytestmark = pytest.mark.usefixtures("quiet")

PERSISTENCES: list[Persistence] = ["lost", "kept", 1, 2]
# Operations that change files; each may fail in the middle of a compaction.
FAILURES: list[Operation] = [
    "create",
    "append",
    "truncate",
    "flush",
    "rename",
    "remove",
    "flush folder",
]


class Workload:
    """Keys written over and over, deleted, compacted, and what a reader saw after each step."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.now_ms = NOW_MS
        self.cleaned_offset = 0
        self.seen: list[list[Entry]] = [[]]
        self.equal_sizes = 0
        self._serial = 0

    def run(self) -> None:
        self.log = Log.open(self.disk.root, CONFIG)
        self.produce(12)
        self.compact()
        self.produce(6, tombstones=True)
        self.compact()
        self.produce_of_equal_size()
        self.compact()
        self.now_ms += DELETE_RETENTION_MS
        self.produce(9)
        self.compact()
        self.log.close()
        self.log = Log.open(self.disk.root, CONFIG)
        self.delete_the_oldest()
        self.produce(5)
        self.compact()

    def produce(self, count: int, *, tombstones: bool = False) -> None:
        batches = []
        for _ in range(count):
            self._serial += 1
            pairs = [
                (
                    b"%d" % (self._serial * 7 % 11),
                    None if tombstones else b"%d" % self._serial * 40,
                ),
                (b"a key that is rather long %d" % (self._serial % 3), b"%d" % self._serial),
            ]
            batches.append(keyed_batch(pairs, timestamp_ms=self.now_ms, codec=self._serial % 5))
        put(self.log, *batches)
        self.seal()

    def produce_of_equal_size(self) -> None:
        """A segment that loses as many bytes as its tombstones grow, in the midst of others: eight
        for the first `k`, and two for the time of each tombstone."""
        self.produce(5)
        put(
            self.log,
            keyed_batch([(b"k", b""), (b"x", b"")]),
            keyed_batch([(b"y", bytes(1000)), (b"k", b"")]),
            *(keyed_batch([(b"t%d" % number, None)]) for number in range(4)),
        )
        self.seal()

    def seal(self) -> None:
        seal(self.log)
        self.seen.append(entries(self.log))

    def compact(self) -> None:
        compaction = begin(self.log, cleaned_offset=self.cleaned_offset, now_ms=self.now_ms)
        self.run_jobs(compaction)
        self.cleaned_offset = compaction.cleaned_offset

    def run_jobs(self, compaction: Compaction) -> None:
        while (job := compaction.next_job()) is not None:
            self.seen.append(entries(self.log))
            job.run()
            if isinstance(job, CleaningJob) and job.taken == 1 and not job.is_unchanged:
                self.equal_sizes += job.output.size_bytes == job._sources[0].size_bytes
        self.seen.append(entries(self.log))

    def delete_the_oldest(self) -> None:
        for job in self.log.cutter.delete_before(self.log.segments()[0].last_offset + 1):
            job.run()
        self.seen.append(entries(self.log))


def crash(operation: int) -> Workload:
    workload = Workload(SimulatedDisk())
    workload.disk.crash_at(operation)
    with pytest.raises(SimulatedCrash):
        workload.run()
    return workload


@functools.cache
def undisturbed() -> Workload:
    """The same life without a crash: it shows how each step ends."""
    workload = Workload(SimulatedDisk())
    workload.run()
    assert workload.equal_sizes, "no segment kept its size"
    return workload


def operations() -> range:
    return range(1, len(undisturbed().disk.operations) + 1)


def check(workload: Workload, disk: SimulatedDisk, where: str) -> None:
    log = Log.open(disk.root, CONFIG)
    found = entries(log)
    step = len(workload.seen)
    before_and_after = undisturbed().seen[step - 1 : step + 1]
    # More may be there: what was written and not acknowledged yet.
    assert any(found[: len(seen)] == seen for seen in before_and_after), (where, found)
    check_folder(log, disk, where)
    check_goes_on(log, disk, where)


def check_folder(log: Log, disk: SimulatedDisk, where: str) -> None:
    names = set(disk.files())
    stems = {segment.stem for segment in log.chain.segments}
    left_over = {name for name in names if name.endswith((".log", ".index", ".time"))} - {
        stem + suffix for stem in stems for suffix in (".log", ".index", ".time")
    }
    assert not left_over, (where, left_over)
    assert CLEANED_NAME not in names, where
    for segment in log.sealed_segments():
        assert columns(segment.index) == columns(rebuild_index(segment)), where


def check_goes_on(log: Log, disk: SimulatedDisk, where: str) -> None:
    """The same keys and values are left in the end, whatever happened before."""
    latest = {entry.key: entry.value for entry in entries(log)}
    put(log, keyed_batch([(b"last", b"value")]))
    latest[b"last"] = b"value"
    seal(log)
    compact(log, cleaned_offset=read_cleaned_offset(disk.root, log.next_offset))
    found = entries(log)
    assert {entry.key: entry.value for entry in found} == latest, where
    assert len(found) == len(latest), where
    assert due(log, cleaned_offset=log.written_offset) is None
    problems = [finding for finding in verify(disk.root) if finding.problem]
    assert not problems, (where, problems)


@pytest.mark.parametrize("persistence", PERSISTENCES)
def test_crash_at_every_operation(persistence: Persistence) -> None:
    """R-STO-6: whatever of the unflushed state the disk kept, no latest record is lost."""
    for operation in operations():
        workload = crash(operation)
        where = f"{persistence}: {workload.disk.operations[-1]} ({operation})"
        check(workload, workload.disk.after_crash(mixed(persistence, operation)), where)


def test_crash_at_every_operation_of_recovery() -> None:
    """R-STO-6: a crash while recovery tidies up after a compaction changes nothing."""
    for operation in operations()[::3]:
        workload = crash(operation)
        recovery_operation = 0
        while True:
            recovery_operation += 1
            disk = workload.disk.after_crash(operation)
            disk.crash_at(recovery_operation)
            try:
                Log.open(disk.root, CONFIG)
                break
            except SimulatedCrash:
                where = f"{operation}, then {disk.operations}"
                check(workload, disk.after_crash(1000 * operation + recovery_operation), where)


def prepared() -> tuple[SimulatedDisk, Log]:
    disk = SimulatedDisk()
    workload = Workload(disk)
    workload.log = Log.open(disk.root, CONFIG)
    workload.produce(12, tombstones=True)
    workload.compact()
    workload.produce(12)
    return disk, workload.log


@pytest.mark.parametrize("operation", FAILURES)
def test_a_disk_that_fails_leaves_the_log_readable_and_nothing_behind(operation: Operation) -> None:
    """R-STO-6: whichever job it comes in, and whether it was a first or a later one."""
    failed = 0
    for job_number in range(40):
        disk, log = prepared()
        before = entries(log)
        latest = {entry.key: entry.value for entry in before}
        compaction = begin(log)
        with contextlib.suppress(StorageError):
            for number in itertools.count():
                job = compaction.next_job()
                if job is None:
                    break
                if number == job_number:
                    disk.fail_next(operation)
                job.run()
                failed += job.error is not None
                disk._failures.clear()
        assert {entry.key: entry.value for entry in entries(log)} == latest, job_number
        assert CLEANED_NAME not in disk.files(), job_number
        if not log.failed:
            check_goes_on(log, disk, f"{operation} {job_number}")
        check_folder(Log.open(disk.root, CONFIG), disk, f"{operation} {job_number}")
    assert failed


def test_a_full_disk_leaves_the_log_as_it_is() -> None:
    """R-STO-6: and the next compaction, when there is room, makes up for it."""
    full = 0
    for room_bytes in range(0, 2400, 60):
        disk, log = prepared()
        before = entries(log)
        disk.capacity_bytes = sum(map(len, disk.files().values())) + room_bytes
        try:
            compact(log)
        except DiskFull:
            full += 1
            assert CLEANED_NAME not in disk.files(), room_bytes
            assert not log.failed
            latest = {entry.key: entry.value for entry in before}
            assert {entry.key: entry.value for entry in entries(log)} == latest
        disk.capacity_bytes = None
        check_goes_on(log, disk, f"{room_bytes}")
    assert 0 < full < 40
