"""What the log does not take: whoever wrote it believes nothing of it afterwards."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from penstock.coordination.delay.records import DELAYED_TOPIC
from penstock.model.errors import CoordinatorLoading, DiskFull, PenstockError, StorageFailed
from tests.kit.broker.delay import Life, living
from tests.kit.simulated_disk import Operation, SimulatedDisk

ResultT = TypeVar("ResultT")


class FullDisk(SimulatedDisk):
    """One that has no room for one write of delayed messages."""

    def __init__(self, full_at: int) -> None:
        """full_at: the number of the write, from 0 on, since the disk was made."""
        super().__init__()
        self.full_at = full_at
        self.writes = 0

    def begin(self, operation: Operation, path: str) -> bool:
        crash = super().begin(operation, path)
        if operation == "append" and f"/{DELAYED_TOPIC}/" in path and path.endswith(".log"):
            self.writes += 1
            if self.writes == self.full_at + 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return crash


async def served(life: Life) -> None:
    await life.coordinator.make_topic()
    life.coordinator.look()
    await life.until_serving()


async def again(life: Life, attempt: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """As a client does, until it is taken."""
    while True:
        try:
            return await attempt()
        except (DiskFull, CoordinatorLoading):
            await life.until_serving()


async def until_delivered(life: Life, expected: dict[int, list[bytes]]) -> None:
    async with asyncio.timeout(10):
        while any(len(life.values(partition=at)) < len(each) for at, each in expected.items()):
            if life.coordinator._service is not None:
                life.service.deliverer.wake()
            await asyncio.sleep(0)


async def tell(life: Life) -> None:
    """All kinds of writes, each tried until it is taken."""
    await served(life)
    await again(life, lambda: life.delay(b"a0", b"a1", after_ms=[20, 10]))
    await again(life, lambda: life.delay(b"b0", after_ms=30, partition=1))
    late = await again(life, lambda: life.delay(b"late", after_ms=40))
    await again(life, lambda: life.delay(b"c0", after_ms=50, key=b"k", ordered=True))
    await again(life, lambda: life.coordinator.cancel(late))
    life.clock.time_ms += 45
    await until_delivered(life, {0: [b"a1", b"a0"], 1: [b"b0"]})
    await again(life, lambda: life.service.deliverer.note_arrived())
    await again(life, lambda: life.delay(b"d0", after_ms=10, key=b"k", ordered=True))
    await again(life, lambda: life.delay(b"d1", after_ms=10, partition=1))
    life.clock.time_ms += 30
    await until_delivered(life, {0: [b"a1", b"a0", b"c0", b"d0"], 1: [b"b0", b"d1"]})


async def test_whatever_write_is_refused_all_that_is_acknowledged_comes_once() -> None:
    """R-DEL-13: at each write in turn the disk has no room, for that one."""
    writes = 100
    full_at = 1
    while full_at < writes:
        disk = FullDisk(full_at)
        async with living(disk) as life:
            await tell(life)
            life.lose()
            await life.gain()
            await life.settle()
            told = life.values(partition=0), life.values(partition=1)
            assert told == ([b"a1", b"a0", b"c0", b"d0"], [b"b0", b"d1"]), full_at
        writes = min(writes, disk.writes)
        full_at += 1
    assert full_at > 10, "writes of all kinds"


async def test_a_lane_that_could_not_be_written_is_not_believed_in() -> None:
    """Else what is accepted next would wait for a partition that the log does not name, and go to
    another after a failover."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await served(life)
        await life.topics.create("other", 1, {})
        await life.delay(b"x", after_ms=1_000_000, partition=1)
        disk.fail_next("append", errno.ENOSPC)
        with pytest.raises(DiskFull):
            await life.delay(b"a", after_ms=1000)
        await life.until_serving()
        await life.delay(b"secret", after_ms=60_000)
        await life.delay(b"b", after_ms=2000)
        await life.advance(3000)
        assert life.values() == [b"b"]
        life.lose()
        await life.gain()
        await life.delay(b"c", after_ms=1000, topic="other")
        await life.advance(100_000)
        assert (life.values(), life.values("other")) == ([b"b", b"secret"], [b"c"])


async def test_a_write_that_is_refused_holds_up_no_delivery() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await served(life)
        await life.delay(b"first", after_ms=60_000)
        disk.fail_next("append", errno.ENOSPC)
        with pytest.raises(DiskFull):
            await life.delay(*[b"%d" % at for at in range(500)], after_ms=1000)
        await life.until_serving()
        await life.advance(60_000)
        assert life.values() == [b"first"]


async def test_a_decision_that_is_refused_is_taken_again() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await served(life)
        await life.delay(b"first", after_ms=1000)
        life.clock.time_ms += 2000
        former = life.service
        disk.fail_next("append", errno.ENOSPC)
        former.deliverer.wake()
        await life.until(lambda: life.coordinator._service not in (None, former))
        await life.settle()
        await life.delay(b"second", after_ms=1000)
        await life.advance(2000)
        assert life.values() == [b"first", b"second"]
        life.lose()
        await life.gain()
        await life.settle()
        assert life.values() == [b"first", b"second"]


async def test_what_is_on_its_way_is_waited_for_before_anybody_is_served_again() -> None:
    """An earlier write may still become true, and tell of a lane."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await served(life)
        first = life.start_delay([(None, b"first")], [1000])
        life.driver.end_turn()  # it is in the file, and not durable yet
        disk.fail_next("append", errno.ENOSPC)
        second = life.start_delay([(None, b"second")], [1000], partition=1)
        life.driver.end_turn()
        with pytest.raises(DiskFull):
            await second
        await first
        await life.until_serving()
        await life.delay(b"third", after_ms=1000, partition=1)
        await life.advance(1000)
        assert (life.values(), life.values(partition=1)) == ([b"first"], [b"third"])


async def test_a_log_that_has_failed_for_good_is_told_of() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await served(life)
        disk.fail_next("flush", errno.EIO)
        with pytest.raises(PenstockError):
            await life.delay(b"a", after_ms=1000)
        for _ in range(20):
            await asyncio.sleep(0)
        with pytest.raises(StorageFailed):
            await life.delay(b"b", after_ms=1000)
