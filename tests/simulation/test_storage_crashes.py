"""A crash at every operation of a log's life on the simulated disk, and of its recovery.

The checker after each: acknowledged ⊆ recovered, every recovered batch is one that was appended at
that offset, offsets without gap or repeat, records that were deleted stay so, indexes equal to
rebuilt ones, and the log goes on.
"""

from __future__ import annotations

import pytest

from penstock.model.errors import DiskFull
from penstock.records.header import check_batch
from penstock.storage.files.files import Directory
from penstock.storage.log.log import CleanEnd, Log
from penstock.storage.log.start_offset import read_start_offset
from penstock.storage.log.verify import verify
from penstock.storage.segments.index import SegmentIndex, read_index
from penstock.storage.segments.segment import rebuild_index
from tests.kit.crashes import mixed
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk
from tests.kit.storage.logs import CONFIG, NOW_MS, make_batch, read_all

pytestmark = pytest.mark.usefixtures("quiet")

PERSISTENCES: list[Persistence] = ["lost", "kept", *range(1, 9)]


class Workload:
    """A life of a log, and what it was promised so far."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.acknowledged_offset = 0
        self.deleted_offset = 0
        # Where the log begins at least, and at most, by deletions of records.
        self.start_offset = 0
        self.start_offset_asked = 0
        self.clean_end: CleanEnd | None = None
        # Every batch that was ever written at an offset. More than one after an undone write or a
        # truncation; but below `acknowledged_offset` only the last counts.
        self.appended: dict[int, list[bytes]] = {}
        self._serial = 0

    def run(self) -> None:
        self.open()
        self.produce(3)
        self.flush()
        self.produce(6)
        self.flush()
        self.produce(2, value_bytes=900)
        self.produce(6, at_once=True)
        self.flush_while_producing()
        self.delete_records(self.log.segments()[0].last_offset)
        self.delete(self.log.segments()[1].last_offset + 1)
        self.delete_records(self.log.start_offset + 3)
        self.produce(3)
        self.flush(include_active=False)
        self.truncate(back=3)
        self.produce(9)
        self.flush()
        self.truncate(back=20)
        self.produce(2)
        self.run_out_of_room()
        self.flush()
        self.close()
        self.open()
        assert self.log.start_offset == self.start_offset
        self.produce(8, at_once=True)
        self.log.writer.roll()
        self.flush()
        self.delete_records(self.log.start_offset + 1)
        self.delete(self.log.segments()[-1].first_offset)
        self.produce(3)
        self.delete_records(self.log.written_offset)
        self.close()

    def open(self) -> None:
        clean_end, self.clean_end = self.clean_end, None
        self.log = Log.open(self.disk.root, CONFIG, clean_end=clean_end)

    def close(self) -> None:
        self.clean_end = self.log.close()
        self.acknowledged_offset = self.log.next_offset

    def produce(self, count: int, *, value_bytes: int = 60, at_once: bool = False) -> None:
        for number in range(count):
            self._serial += 1
            value = b"%d." % self._serial + bytes([self._serial % 255 + 1]) * value_bytes
            batch = make_batch(value, records=1 + self._serial % 3)
            view = memoryview(bytearray(batch))
            offset = self.log.writer.stage(check_batch(view), view, 0)
            self.appended.setdefault(offset, []).append(bytes(view))
            if not at_once or number == count - 1:
                self.log.writer.write_staged(NOW_MS)

    def flush(self, *, include_active: bool = True) -> None:
        job = self.log.writer.flush_job(include_active)
        if job is not None:
            job.run()
            self.acknowledged_offset = self.log.writer.finish_flush(job)

    def flush_while_producing(self) -> None:
        job = self.log.writer.flush_job(include_active=True)
        assert job is not None
        self.produce(5, at_once=True)
        job.run()
        self.acknowledged_offset = self.log.writer.finish_flush(job)

    def delete(self, offset: int) -> None:
        self.deleted_offset = offset
        jobs = self.log.cutter.delete_before(offset)
        assert jobs
        for job in jobs:
            job.run()

    def delete_records(self, offset: int) -> None:
        self.start_offset_asked = offset
        job = self.log.cutter.start_offset_job(offset)
        job.run()
        self.log.cutter.finish_start_offset(job)
        self.start_offset = offset

    def truncate(self, *, back: int) -> None:
        offsets = [header.base_offset for header in self.log.headers(0)]
        offset = offsets[-back]
        self.acknowledged_offset = min(self.acknowledged_offset, offset)
        self.log.cutter.truncate(offset)
        self.appended = {at: batches for at, batches in self.appended.items() if at < offset}

    def run_out_of_room(self) -> None:
        """A write that rolls, and fails in the new segment; what comes next fits the old one."""
        used = sum(map(len, self.disk.files().values()))
        segments = self.log.segment_count
        self.disk.capacity_bytes = used + 2000
        try:
            with pytest.raises(DiskFull):
                self.produce(20, value_bytes=1400, at_once=True)
            assert self.log.segment_count == segments
        finally:
            self.disk.capacity_bytes = None
        self.produce(3)
        assert self.log.segment_count == segments


def check_recovered(workload: Workload, directory: Directory, log: Log, where: str) -> None:
    assert log.start_offset <= max(workload.deleted_offset, workload.start_offset_asked), where
    # Unless what was deleted had not been durable, and is not there any more.
    assert log.start_offset >= min(workload.start_offset, log.next_offset), where
    assert log.next_offset >= workload.acknowledged_offset, where
    for header, batch in read_all(log):
        candidates = workload.appended[header.base_offset]
        if header.base_offset < workload.acknowledged_offset:
            candidates = candidates[-1:]
        assert batch in candidates, (where, header.base_offset)
    for segment in log.chain.segments:
        rebuilt = rebuild_index(segment)
        assert columns(segment.index) == columns(rebuilt), where
        if segment.sealed:
            written = read_index(directory, segment.stem, segment.size_bytes)
            assert columns(written) == columns(rebuilt), where


def columns(index: SegmentIndex) -> tuple[list[int], ...]:
    return (
        list(index.offsets),
        list(index.positions),
        list(index.timestamps),
        list(index.term_offsets),
        list(index.terms),
        [index.max_timestamp_ms],
    )


def check_goes_on(log: Log, directory: Directory, where: str) -> None:
    next_offset = log.next_offset
    view = memoryview(bytearray(make_batch(b"after the crash")))
    assert log.writer.stage(check_batch(view), view, 0) == next_offset
    log.writer.write_staged(NOW_MS)
    clean_end = log.close()
    findings = [finding for finding in verify(directory) if finding.problem]
    assert not findings, (where, findings)
    again = Log.open(directory, CONFIG, clean_end=clean_end)
    assert again.next_offset == next_offset + 1, where


def count_operations() -> int:
    disk = SimulatedDisk()
    workload = Workload(disk)
    workload.run()
    operations = len(disk.operations)
    check_recovered(workload, disk.root, Log.open(disk.root, CONFIG), "no crash")
    return operations


def crash(operation: int) -> Workload:
    disk = SimulatedDisk()
    workload = Workload(disk)
    disk.crash_at(operation)
    with pytest.raises(SimulatedCrash):
        workload.run()
    return workload


@pytest.mark.parametrize("persistence", PERSISTENCES)
def test_crash_at_every_operation(persistence: Persistence) -> None:
    """R-STO-6: whatever the moment and whatever the disk kept, nothing acknowledged is lost."""
    for operation in range(1, count_operations() + 1):
        workload = crash(operation)
        found = workload.disk.after_crash(mixed(persistence, operation))
        where = f"{persistence}: {workload.disk.operations[-1]} ({operation})"
        log = Log.open(found.root, CONFIG)
        check_recovered(workload, found.root, log, where)
        check_goes_on(log, found.root, where)


@pytest.mark.parametrize("persistence", PERSISTENCES[:6])
def test_crash_at_every_operation_of_recovery(persistence: Persistence) -> None:
    """R-STO-6: a crash during recovery changes nothing of what the next recovery must find."""
    for operation in range(1, count_operations() + 1):
        workload = crash(operation)
        recovery_operation = 0
        while True:
            recovery_operation += 1
            found = workload.disk.after_crash(mixed(persistence, operation))
            found.crash_at(recovery_operation)
            try:
                Log.open(found.root, CONFIG)
                break
            except SimulatedCrash:
                pass
            where = f"{persistence}: {operation}, then {found.operations}"
            again = 100 * operation + recovery_operation
            found = found.after_crash(again)
            log = Log.open(found.root, CONFIG)
            check_recovered(workload, found.root, log, where)


def test_kill_at_every_operation_and_then_a_power_cut() -> None:
    """R-STO-6: what a restarted process has shown to readers survives the machine's crash."""
    for operation in range(1, count_operations() + 1):
        disk = crash(operation).disk
        disk.restart_process()
        shown = read_all(Log.open(disk.root, CONFIG))
        shown_start = read_start_offset(disk.root)
        after = disk.after_crash("lost")
        found = read_all(Log.open(after.root, CONFIG))
        # Deletions and truncations under way may be undone, so there may be more.
        assert set(shown) <= set(found), operation
        # But not of records: who asks for it again is told that it is done.
        assert read_start_offset(after.root) == shown_start, operation
