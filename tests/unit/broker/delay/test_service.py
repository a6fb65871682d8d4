"""Whatever the disk looks like after a crash: what was acknowledged comes once, in order, on
time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

import pytest

from penstock.broker.delay import coordinator as coordinator_module
from penstock.broker.delay import store as store_module
from penstock.coordination.delay.records import Due
from penstock.storage.due import index as due_index
from tests.kit.broker.delay import Life, living
from tests.kit.broker.running import ManualClock, allow_small_segments
from tests.kit.simulated_disk import Persistence, SimulatedDisk


@dataclass
class Crash:
    """A disk as it is found, and what is known by then."""

    disk: SimulatedDisk
    time_ms: int
    accepted: dict[bytes, Due]
    cancelled: set[bytes]
    asked_to_cancel: set[bytes]


class Story:
    """Messages that are accepted, cancelled and delivered, and crashes amid all of it."""

    def __init__(self, disk: SimulatedDisk, seed: int) -> None:
        self.disk = disk
        self.chance = random.Random(seed)
        self.accepted: dict[bytes, Due] = {}
        self.cancelled: set[bytes] = set()
        self.asked_to_cancel: set[bytes] = set()
        self.crashes: list[Crash] = []
        self.count = 0

    async def tell(self, life: Life, steps: int) -> None:
        tasks: list[asyncio.Task[None]] = []
        for _ in range(steps):
            kind = self.chance.random()
            if kind < 0.5:
                tasks.append(asyncio.create_task(self._accept(life)))
            elif kind < 0.6:
                tasks.append(asyncio.create_task(self._cancel(life)))
            elif kind < 0.7:
                life.store.partition.replica.roll()
                tasks.append(asyncio.create_task(self._clean(life)))
            elif kind < 0.8:
                await life.service.deliverer.note_arrived()
            else:
                life.clock.time_ms += self.chance.randrange(30)
                life.service.deliverer.wake()
            for _ in range(self.chance.randrange(8)):
                await asyncio.sleep(0)
            if self.chance.random() < 0.15:
                self._crash(life)
        await asyncio.gather(*tasks)
        await life.settle()
        self._crash(life)

    def _crash(self, life: Life) -> None:
        persistence: Persistence = self.chance.choice(["lost", "kept", self.chance.randrange(99)])
        self.crashes.append(
            Crash(
                self.disk.after_crash(persistence),
                life.clock.time_ms,
                dict(self.accepted),
                set(self.cancelled),
                set(self.asked_to_cancel),
            )
        )

    async def _accept(self, life: Life) -> None:
        values = []
        for _ in range(self.chance.randrange(1, 12)):
            values.append(b"%d" % self.count)
            self.count += 1
        delays = [self.chance.randrange(100) for _ in values]
        partition = self.chance.randrange(2)
        dues = await life.delay(*values, after_ms=delays, partition=partition)
        self.accepted.update(zip(values, dues, strict=True))

    async def _cancel(self, life: Life) -> None:
        known = sorted(self.accepted)
        if known:
            value = self.chance.choice(known)
            self.asked_to_cancel.add(value)
            if (await life.coordinator.cancel([self.accepted[value]]))[0]:
                self.cancelled.add(value)

    async def _clean(self, life: Life) -> None:
        await life.service.cleaner.clean()


async def check(crash: Crash) -> None:
    clock = ManualClock(crash.time_ms)
    async with living(crash.disk, clock) as life:
        if crash.accepted:
            await life.until_serving()
            await life.settle()
            for partition in range(2):
                for message in life.messages(partition=partition):
                    assert message.timestamp_ms <= clock.now_ms(), "early"
            await life.advance(1000)
        come = [life.messages(partition=partition) for partition in range(2)]
        values = [message.value for messages in come for message in messages]
        assert len(values) == len(set(values)), "twice"
        missing = crash.accepted.keys() - set(values) - crash.asked_to_cancel
        assert not missing, "lost"
        assert not crash.cancelled & set(values), "cancelled, and delivered"
        for messages in come:
            dues = [
                crash.accepted[message.value]
                for message in messages
                if message.value in crash.accepted
            ]
            assert dues == sorted(dues), "out of order"


@pytest.mark.parametrize("seed", range(8))
async def test_a_crash_at_any_time_loses_repeats_and_reorders_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-DEL-13, R-STO-6: also while the index is saved and merged, and messages are moved."""
    allow_small_segments(monkeypatch)
    monkeypatch.setitem(coordinator_module._SETTINGS, "segment_bytes", "2000")
    monkeypatch.setattr(store_module, "_BATCHES_PER_SAVE", 7)
    monkeypatch.setattr(due_index, "_MERGED_AT_ONCE", 3)
    monkeypatch.setattr(
        due_index.DueIndex.__init__, "__kwdefaults__", {"in_memory_max": 12, "runs_max": 3}
    )
    disk = SimulatedDisk()
    story = Story(disk, seed)
    async with living(disk) as life:
        await life.delay(b"first")
        await story.tell(life, 60)
    assert len(story.accepted) > 50
    for crash in story.crashes:
        await check(crash)
