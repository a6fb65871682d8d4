"""Room in `__delayed` is given back, and what waits moves along."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.delay import cleaner as cleaner_module
from penstock.broker.delay import coordinator as coordinator_module
from tests.kit.broker.delay import START_MS, living
from tests.kit.broker.running import ManualClock, allow_small_segments
from tests.kit.simulated_disk import SimulatedDisk


@pytest.fixture(autouse=True)
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_small_segments(monkeypatch)
    monkeypatch.setitem(coordinator_module._SETTINGS, "segment_bytes", "5000")
    monkeypatch.setattr(cleaner_module, "_SLACK_BYTES", 20_000)


async def test_one_that_waits_for_long_does_not_keep_the_others() -> None:
    """R-DEL-13: its number stays, so it can still be cancelled, and comes in its turn."""
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        keep = await life.delay(b"first", b"second", b"gone", after_ms=[10**9, 10**9 + 1, 10**9])
        log = life.store.partition.replica.log
        for _ in range(60):
            await life.delay(*[b"x" * 100] * 10)
            await life.settle()
            await life.service.deliverer.note_arrived()
            if life.service.cleaner.is_due:
                await life.service.cleaner.clean()
                await life.until(lambda: not life.store.partition.replica._dirty)
        assert log.start_offset > keep[-1].number
        assert log.size_bytes < 40_000
        assert await life.coordinator.cancel([keep[2], keep[2]]) == [True, False]
        assert life.store.table.pending == 2
    async with living(disk, clock) as life:
        await life.until_serving()
        assert life.store.table.pending == 2
        before = len(life.values())
        await life.advance(10**9)
        await life.advance(1)
        assert life.values()[before:] == [b"first", b"second"]
        assert life.messages()[-1].timestamp_ms == START_MS + 10**9 + 1


async def test_it_goes_on_while_messages_come_and_are_cancelled() -> None:
    async with living(SimulatedDisk()) as life:
        waiting = await life.delay(*[b"%d" % at for at in range(100)], after_ms=10**6)
        for at in range(10):
            await life.delay(*[b"x" * 300] * 10, partition=1)
            life.store.partition.replica.roll()
            cleaning = asyncio.create_task(life.service.cleaner.clean())
            for _ in range(at):
                await asyncio.sleep(0)
            cancelled = await life.coordinator.cancel(waiting[at * 3 : at * 3 + 2])
            assert cancelled == [True, True]
            await cleaning
            await life.settle()
        await life.advance(10**6)
        expected = [b"%d" % at for at in range(100) if at >= 30 or at % 3 == 2]
        assert life.values() == expected


async def test_little_is_left_alone() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a")
        assert not life.service.cleaner.is_due
        await life.service.cleaner.clean()
        assert life.store.partition.replica.log.start_offset == 0


async def test_whoever_reads_from_the_cut_on_knows_everything() -> None:
    """R-DEL-13: a copy that begins there has no other way to know it."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.delay(b"a", after_ms=10**6, key=b"k", ordered=True, token=b"t" * 16)
        await life.delay(*[b"x" * 100] * 100)
        await life.settle()
        await life.service.deliverer.note_arrived()
        await life.service.cleaner.clean()
        state = life.store.table.encode()
        assert life.store.partition.replica.log.start_offset > 0
        life.lose()
        await life.settle_turns()
        names = [name for name in disk.files() if "/due/" in name]
        for name in names:
            folder = disk.root
            *parents, last = name.split("/")
            for parent in parents:
                folder = folder.subdirectory(parent)
            folder.remove(last)
        life.coordinator._close_store()
        await life.gain()
        assert life.store.table.encode() == state
        await life.advance(10**6)
        assert life.values()[-1] == b"a"


async def test_what_has_arrived_is_not_moved_because_one_lane_is_behind() -> None:
    """Else a partition that cannot be reached makes all that was delivered since be written anew,
    again and again."""
    async with living(SimulatedDisk()) as life:
        await life.delay(b"stuck", after_ms=10, partition=1)
        life.partitions.find("orders", 1).replica._lose_leadership()
        life.clock.time_ms += 10
        life.service.deliverer.wake()
        await life.delay(*[b"x"] * 200)
        await life.until(lambda: len(life.values()) == 200)
        await life.until(lambda: life.service.deliverer.unnoted().get(2, (0, 0))[0] == 200)
        await life.service.deliverer.note_arrived()
        assert life.store.table.pending == 1
        live: list[int] = []
        for _ in life.service.cleaner._live(lambda entry: live.append(entry.lane)):
            """All of it."""
        assert live == [1]
