"""What is decided is carried out to its end, whatever fails on the way, and then forgotten."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterable

import pytest

from penstock.broker.groups.snapshot import KeyAndValue
from penstock.broker.partitions.housekeeping import Housekeeping
from penstock.broker.partitions.partition import Partition
from penstock.broker.staging import copy as staged_copy
from penstock.broker.staging.log import Told
from penstock.coordination.producers import state as producer_state
from penstock.coordination.staging.records import NamedAttempt
from penstock.model.errors import DiskFull, StorageFailed
from penstock.model.limits import PRODUCER_SILENCE_MS_MAX
from tests.kit.broker.running import ManualClock, batch
from tests.kit.broker.staging import Life, living
from tests.kit.simulated_disk import SimulatedDisk, SimulatedFile
from tests.unit.broker.staging.test_copy import Nobody, keep_undone


def produce_as(life: Life, *producer_ids: int) -> None:
    """A batch of each of these producers."""
    partition = life.partitions.find("orders", 0)
    for producer_id in producer_ids:
        one = batch([b"other"], producer=(producer_id, 0, 0))
        partition.append(memoryview(one), Nobody())
    life.driver.end_turn()


async def test_what_is_done_is_forgotten_with_its_producer() -> None:
    """One for each epoch would push the others out of a partition's memory."""
    async with living(SimulatedDisk()) as life:
        for epoch in range(3):
            await life.commit(await life.stage("a", [b"a"], epoch=epoch), epoch=epoch)
        await life.until_noted()
        assert len(life.partitions.find("orders", 0).producers) == 0
        assert life.partitions.kept_producers == set()
        assert life.table.low_offset() is None


@pytest.mark.parametrize("is_crash", [True, False])
async def test_other_producers_do_not_push_out_one_that_is_needed(
    is_crash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-SPK-2: a partition that has its part already must know it after a restart, however many
    produced to it since, and however long ago it was."""
    monkeypatch.setattr(producer_state, "PRODUCERS_PER_PARTITION_MAX", 3)
    disk = SimulatedDisk()
    clock = ManualClock()
    async with living(disk, clock) as life:
        keep_undone(life, monkeypatch)
        await life.commit(await life.stage("a", [b"a"], [b"b"], [b"c"]))
        produce_as(life, *range(500, 510))
        clock.time_ms += PRODUCER_SILENCE_MS_MAX + 1
        life.partitions.find("orders", 0).producers.expire(clock.time_ms)
        produce_as(life, *range(600, 610))
        crashed = disk.after_crash("kept")
    real_go_on, may_copy = staged_copy.Copy.go_on, asyncio.Event()

    def go_on(copy: staged_copy.Copy) -> bool:
        if may_copy.is_set():
            return real_go_on(copy)
        copy._ready(copy)
        return False

    monkeypatch.setattr(staged_copy.Copy, "go_on", go_on)
    async with living(crashed if is_crash else disk, clock) as life:
        produce_as(life, *range(700, 710))
        may_copy.set()
        await life.until_noted()
        values = life.values()
        assert [value for value in values if value != b"other"] == [b"a", b"b", b"c"]
        assert len(values) == 33


async def test_retention_on_a_full_disk_leaves_what_tells_how_far_a_copy_came() -> None:
    """R-SPK-2: one partition has its part and the other has no room; nor has the snapshot of the
    producers, without which retention would take all that is known of the copy."""
    disk = SimulatedDisk()
    clock = ManualClock()
    async with living(disk, clock) as life:
        await life.topics.alter("orders", {"retention_ms": "1000", "segment_ms": "1000"}, [])
        parts = [b"a"], [b"y" * 5000]
        told = [life.start_stage("a", at, part, partition=at) for at, part in enumerate(parts)]
        life.driver.end_turn()
        await asyncio.gather(*told)
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 2000
        with pytest.raises(DiskFull):
            await life.commit(NamedAttempt("a", 2))
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 20
        partition = life.partitions.find("orders", 0)
        await tidy(life, rounds=4)
        assert partition.replica.log.writer.rolls > 0
        assert partition.replica.log.first_offset == 0, "its segment is needed"
        crashed = disk.after_crash("kept")
        crashed.capacity_bytes = None
    async with living(crashed, clock) as life:
        await life.until_noted()
        assert life.partitions.find("orders", 0).replica.log.next_offset == 1, "it was there"
        assert life.values(partition=1) == [b"y" * 5000]
        await tidy(life, rounds=4)
        assert life.partitions.find("orders", 0).replica.log.first_offset == 1


async def tidy(life: Life, rounds: int) -> None:
    """As housekeeping does from time to time, each round to its end."""
    housekeeping = Housekeeping(life.partitions, life.flusher, life.clock, interval_s=1.0)
    for _ in range(rounds):
        life.clock.time_ms += 100_000
        await housekeeping.one_round()
        for partition in life.partitions.all():
            while partition.saved_producers.is_saving:
                await asyncio.sleep(0)
            idle = asyncio.Event()
            partition.replica.idleness.when(idle.set)
            await idle.wait()


async def test_a_full_disk_holds_the_copy_up_and_no_more() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"x" * 3000], [b"y" * 3000])
        # Enough for the decision.
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 2000
        with pytest.raises(DiskFull):
            await life.commit(named)
        assert life.staging.committed_epoch("w") == 0
        assert life.values() == []
        with pytest.raises(DiskFull):
            await life.commit(named)
        with pytest.raises(DiskFull):
            await life.commit(epoch=1)
        disk.capacity_bytes = None
        life.staging.one_round(is_expiry_due=False)
        await life.until_noted()
        assert life.values() == [b"x" * 3000, b"y" * 3000]
        assert (await life.commit(named)).already


async def test_a_partition_that_failed_is_written_to_after_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"a"])
        fail_flushes_of("/orders/", monkeypatch)
        with pytest.raises(StorageFailed):
            await life.commit(named)
        assert (await life.commit(epoch=0, write="other")).readable, "others go on"
        monkeypatch.undo()
    async with living(disk) as life:
        await life.until_noted()
        assert life.values() == [b"a"]


async def test_what_a_failed_partition_did_not_keep_is_not_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-SPK-2: it has cut off what it could not flush, so its end says nothing of what is there."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"a"])
        fail_flushes_of("/orders/", monkeypatch)
        for _ in range(3):
            with pytest.raises(StorageFailed):
                await life.commit(named)
        assert len(life.table.unfinished()) == 1
        monkeypatch.undo()
    async with living(disk) as life:
        await life.until_noted()
        assert life.values() == [b"a"]


async def test_what_an_earlier_try_wrote_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-CORE-1: written is not durable, and what is not durable is not readable."""
    async with living(SimulatedDisk()) as life:
        told = [life.start_stage("a", number, [b"a"], partition=number) for number in (0, 1)]
        life.driver.end_turn()
        await asyncio.gather(*told)
        may_flush = hold_flushes_of("/orders/0/", monkeypatch)
        real_find = life.partitions.find

        def find(topic: str, partition: int) -> Partition:
            if (topic, partition) == ("orders", 1):
                raise StorageFailed("It is offline.")
            return real_find(topic, partition)

        monkeypatch.setattr(life.partitions, "find", find)
        with pytest.raises(StorageFailed, match="offline"):
            await life.commit(NamedAttempt("a", 2))
        monkeypatch.setattr(life.partitions, "find", real_find)
        assert not (await life.commit(NamedAttempt("a", 2), max_wait_s=0.05)).readable
        may_flush.set()
        assert (await life.commit(NamedAttempt("a", 2))).readable
        assert life.values() == life.values(partition=1) == [b"a"]


async def test_the_note_that_it_is_done_is_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"x" * 3000])
        real_write = life.log.write
        records: list[object] = []

        def write(what: Iterable[KeyAndValue], told: Told) -> None:
            records.append(what)
            if len(records) == 2:
                raise DiskFull
            real_write(what, told)

        monkeypatch.setattr(life.log, "write", write)
        assert (await life.commit(named)).readable
        life.staging.one_round(is_expiry_due=False)
        assert len(records) == 2
        assert len(life.table.unfinished()) == 1
        assert life.table.low_offset() == 0, "it is needed until the note is durable"
        life.staging.one_round(is_expiry_due=False)
        await life.until_noted()
        assert life.table.low_offset() is None


async def test_the_next_decision_stands_for_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"a"])
        real_note = life.staging._copies.note
        keep_undone(life, monkeypatch)
        await life.commit(named)
        await life.commit(await life.stage("b", [b"b"], epoch=1), epoch=1)
        monkeypatch.setattr(life.staging._copies, "note", real_note)
        life.staging.one_round(is_expiry_due=False)
        await life.until_noted()
    async with living(disk) as life:
        assert life.values() == [b"a", b"b"]
        assert life.staging.committed_epoch("w") == 1


async def test_what_is_done_is_noted_together_and_of_each_write_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the next decision of a write says is not said again."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        for write, epochs in (("x", 3), ("y", 1)):
            for epoch in range(epochs):
                named = await life.stage("a", [b"a"], epoch=epoch, write=write)
                await life.commit(named, epoch=epoch, write=write)
        real_write = life.log.write
        written: list[list[KeyAndValue]] = []

        def write_down(records: Iterable[KeyAndValue], told: Told) -> None:
            written.append(list(records))
            real_write(written[-1], told)

        monkeypatch.setattr(life.log, "write", write_down)
        await life.until_noted()
        [noted] = written
        assert {key for key, _ in noted} == {b"x", b"y"}
        assert life.partitions.kept_producers == set()
        assert life.table.low_offset() is None


async def test_an_orderly_stop_notes_what_is_done() -> None:
    """So that the next start need not look for it."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit(await life.stage("a", [b"a"]))
        assert len(life.table.unfinished()) == 1
    async with living(disk) as life:
        assert life.table.unfinished() == []
        assert life.staging.committed_epoch("w") == 0


async def test_whoever_does_not_want_to_wait_asks_again() -> None:
    async with living(SimulatedDisk()) as life:
        named = await life.stage("a", [b"a"])
        life.hold_copies()
        first = await life.commit(named, max_wait_s=0.01)
        assert (first.already, first.records, first.readable) == (False, 1, False)
        second = await life.commit(named, max_wait_s=0)
        assert (second.already, second.records, second.readable) == (True, 1, False)
        life.release_copies()
        assert (await life.commit(named)).readable
        assert life.values() == [b"a"]


async def test_a_copy_that_is_cut_short_by_the_stop_goes_on_at_the_start() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        named = await life.stage("a", [b"a"])
        life.hold_copies()
        waiting = asyncio.create_task(life.commit(named))
        while life.staging.committed_epoch("w") is None:
            await asyncio.sleep(0)
        life.staging.begin_closing()
        with pytest.raises(Exception, match="shutting down"):
            await waiting
    async with living(disk) as life:
        assert (await life.commit(NamedAttempt("a", 1))).already
        assert life.values() == [b"a"]


def hold_flushes_of(folder: str, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Until the event is set."""
    may_flush = threading.Event()
    real_flush = SimulatedFile.flush

    def flush(file: SimulatedFile) -> None:
        if folder in file.path:
            may_flush.wait(5)
        real_flush(file)

    monkeypatch.setattr(SimulatedFile, "flush", flush)
    return may_flush


def fail_flushes_of(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real_flush = SimulatedFile.flush

    def flush(file: SimulatedFile) -> None:
        if folder in file.path:
            raise OSError(errno.EIO, "decayed", file.path)
        real_flush(file)

    monkeypatch.setattr(SimulatedFile, "flush", flush)
