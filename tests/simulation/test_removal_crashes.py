"""A crash at every operation of lives in which retention and deletions take turns, and of the life
after: an explanation may be missing, but it is never wrong.

The checkers after each: what is called removed is gone and went for that cause and at that time;
what is called cut off had been written, and the log went on where it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.model.removal import Removal, RemovalCause
from penstock.records.header import check_batch
from penstock.storage.log.log import Log
from penstock.storage.log.retention import Outlived, removals
from tests.kit.crashes import mixed
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk
from tests.kit.storage.logs import CONFIG, NOW_MS, make_batch

pytestmark = pytest.mark.usefixtures("quiet")

PERSISTENCES: list[Persistence] = ["lost", "kept", *range(1, 7)]


class World:
    """What is true, whatever the journals say."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        # Every offset that was taken from the beginning, why, and when.
        self.causes: dict[int, tuple[RemovalCause, int]] = {}
        self.written_offset = 0
        # When the log was opened, and where it ended then.
        self.openings: dict[int, int] = {}


class Life:
    """A log from its opening to its end, or to a crash."""

    def __init__(self, disk: SimulatedDisk, world: World) -> None:
        self.disk = disk
        self.world = world

    def open(self) -> None:
        self.world.now_ms += 1000
        self.log = Log.open(self.disk.root, CONFIG)
        start_offset = self.log.start_offset
        # What had not been durable is back, and may go for another cause.
        causes = self.world.causes
        self.world.causes = {offset: why for offset, why in causes.items() if offset < start_offset}
        self.world.openings[self.world.now_ms] = self.log.next_offset
        self.log.explain_cut(self.world.now_ms)
        check_explanations(self.log, self.world)

    def produce(self, count: int, value_bytes: int = 300) -> None:
        for number in range(count):
            view = memoryview(bytearray(make_batch(b"%d." % number + b"x" * value_bytes)))
            self.log.writer.stage(check_batch(view), view, 0)
            self.world.written_offset = max(self.world.written_offset, self.log.next_offset)
            self.log.writer.write_staged(self.world.now_ms)

    def flush(self) -> None:
        job = self.log.writer.flush_job(include_active=True)
        if job is not None:
            job.run()
            self.log.writer.finish_flush(job)

    def retain(self, segments: int, cause: RemovalCause = "retention_time") -> None:
        """What housekeeping does; the jobs run in the order they are submitted."""
        self.world.now_ms += 1000
        first_offset = self.log.start_offset
        outlived = [
            Outlived(segment.last_offset + 1, cause)
            for segment in self.log.segments()[:segments]
            if segment.sealed
        ]
        self._will_go(outlived[-1].end_offset, cause)
        jobs = self.log.cutter.delete_before(outlived[-1].end_offset)
        self.log.removals.add(
            removals(
                outlived,
                first_offset,
                self.log.start_offset,
                now_ms=self.world.now_ms,
                retention_ms=1,
                retention_bytes=2,
            )
        )
        self._write_explanations()
        for job in jobs:
            job.run()

    def delete_records(self, offset: int) -> None:
        """What a replica does."""
        self.world.now_ms += 1000
        first_offset = self.log.start_offset
        self._will_go(offset, "deleted")
        job = self.log.cutter.start_offset_job(offset)
        job.run()
        self.log.cutter.finish_start_offset(job)
        removal = Removal(
            first_offset=first_offset,
            end_offset=offset,
            cause="deleted",
            at_ms=self.world.now_ms,
            detail="on request",
        )
        self.log.removals.add([removal])
        self._write_explanations()

    def _will_go(self, end_offset: int, cause: RemovalCause) -> None:
        for offset in range(self.log.start_offset, end_offset):
            self.world.causes[offset] = (cause, self.world.now_ms)

    def _write_explanations(self) -> None:
        job = self.log.removals.job()
        assert job is not None
        job.run()
        self.log.removals.finish(job)


def first_life(life: Life) -> None:
    life.open()
    life.produce(9)
    life.flush()
    life.retain(1)
    life.delete_records(life.log.start_offset + 2)
    life.produce(4)
    life.flush()
    life.retain(2, "retention_size")
    life.delete_records(life.log.start_offset + 1)
    life.produce(5)
    # Not durable yet: a crash may take the log's end away, and the start with it.
    life.delete_records(life.log.written_offset)
    life.produce(3)
    life.flush()
    life.log.writer.roll()
    life.flush()
    life.retain(9)


def second_life(life: Life) -> None:
    """Causes the other way round, so that a stale explanation would show."""
    life.open()
    life.produce(2)
    life.delete_records(life.log.start_offset + 1)
    life.produce(4)
    life.flush()
    life.log.writer.roll()
    life.flush()
    life.retain(2, "retention_size")
    life.produce(1)
    life.delete_records(life.log.written_offset)
    life.log.discard()


def check_explanations(log: Log, world: World) -> None:
    for removal in log.removals.latest():
        if removal.cause == "truncated":
            assert world.openings[removal.at_ms] == removal.first_offset, removal
            assert removal.end_offset <= world.written_offset, removal
        else:
            assert removal.end_offset <= log.start_offset, removal
            for offset in range(removal.first_offset, removal.end_offset):
                assert world.causes[offset] == (removal.cause, removal.at_ms), (removal, offset)


def crashes(live: Callable[[Life], None], disk: SimulatedDisk, world: World) -> bool:
    try:
        live(Life(disk, world))
    except SimulatedCrash:
        return True
    return False


def crashed_first_lives(persistence: Persistence) -> Iterator[tuple[SimulatedDisk, World]]:
    """The first life, ended by a crash at each of its operations in turn."""
    operation = 0
    while True:
        operation += 1
        disk, world = SimulatedDisk(), World()
        disk.crash_at(operation)
        if not crashes(first_life, disk, world):
            return
        yield disk.after_crash(mixed(persistence, operation)), world


@pytest.mark.parametrize("persistence", PERSISTENCES)
def test_no_explanation_is_wrong_after_a_crash(persistence: Persistence) -> None:
    """R-SPK-3, R-STO-6: whatever the moment and whatever the disk kept; nor in the life after."""
    for disk, world in crashed_first_lives(persistence):
        second_life(Life(disk, world))
        Life(disk, world).open()


@pytest.mark.parametrize("persistence", PERSISTENCES[:4])
def test_no_explanation_is_wrong_after_two_crashes(persistence: Persistence) -> None:
    """Each crash of the first life with some of the second, recovery included."""
    for number, (disk, world) in enumerate(crashed_first_lives(persistence)):
        disk.crash_at(1 + number * 7 % 60)
        if crashes(second_life, disk, world):
            disk = disk.after_crash(mixed(persistence, 10_000 + number))
        Life(disk, world).open()


def test_without_a_crash_everything_is_explained() -> None:
    """A checker that is content with nothing would not be one."""
    disk, world = SimulatedDisk(), World()
    first_life(Life(disk, world))
    life = Life(disk, world)
    life.open()
    told = life.log.removals.latest()
    assert {removal.cause for removal in told} == {"retention_time", "retention_size", "deleted"}
    explained = [offset for one in told for offset in range(one.first_offset, one.end_offset)]
    assert explained == list(range(life.log.start_offset))


def test_crashes_do_tear_and_are_explained() -> None:
    """The same of the other checker: some of these crashes cut a log, and some were told of."""
    told = 0
    for persistence in PERSISTENCES:
        for disk, world in crashed_first_lives(persistence):
            life = Life(disk, world)
            life.open()
            told += sum(one.cause == "truncated" for one in life.log.removals.latest())
    assert told > 10
