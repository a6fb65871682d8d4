"""The internal topic of the groups: found as an earlier version left it, shortened by snapshots."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.groups import log as group_log
from penstock.records import BatchBuilder
from penstock.records.header import read_header
from tests.kit.broker.groups import living
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk

SNAPSHOT = "topics/__offsets/0/groups.journal"


async def test_a_topic_of_an_earlier_version_is_taken_over() -> None:
    """R-DEL-10: its records are read, and it is compacted from now on."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.topics.create("__offsets", 1, {"retention_ms": "-1"}, internal=True)
        builder = BatchBuilder(10_000)
        topic_id = life.registry.image.topic("orders").id
        value = f'{{"offset": 9, "metadata": "", "topic_id": "{topic_id}"}}'.encode()
        builder.append(1, b'{"group": "g", "topic": "orders", "partition": 0}', value)
        batch = memoryview(builder.build())
        life.partitions.find("__offsets", 0).replica.propose(read_header(batch), batch, None)
        life.log._driver.end_turn()
    async with living(disk) as life:
        assert await life.offset("g") == 9
        settings = life.registry.image.topic("__offsets").settings
        assert settings["cleanup_policy"] == "compact"
        assert life.partitions.find("__offsets", 0).config.is_compacted
        await life.commit("g", 10)
    async with living(disk) as life:
        assert await life.offset("g") == 10


async def test_an_orderly_stop_leaves_a_snapshot() -> None:
    """R-STO-7: the next start reads nothing else."""
    disk = SimulatedDisk()
    async with living(disk) as life:
        for number in range(20):
            await life.commit("g", number)
    assert SNAPSHOT in disk.files()
    async with living(disk) as life:
        assert life.log._records_since_snapshot == 0
        assert await life.offset("g") == 19
        before = disk.files()[SNAPSHOT]
    assert disk.files()[SNAPSHOT] == before, "nothing has changed, nothing was written"


async def test_a_snapshot_is_taken_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-STO-7: after a crash only what came after it is read."""
    monkeypatch.setattr(group_log, "_SNAPSHOT_RECORDS", 10)
    disk = SimulatedDisk()
    async with living(disk) as life:
        for number in range(25):
            await life.commit("g", number, partition=number % 4)
        async with asyncio.timeout(5):
            while life.log._is_saving:
                await asyncio.sleep(0)
        crashed = disk.after_crash("lost")
    async with living(crashed) as life:
        assert life.log._records_since_snapshot == 5
        assert [await life.offset("g", partition) for partition in range(4)] == [24, 21, 22, 23]


async def test_what_came_after_a_snapshot_counts() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit("g", 1)
        await life.commit("h", 1)
    async with living(disk) as life:
        await life.commit("g", 2)
        await life.answered(
            lambda answer: life.groups.submit(
                answer, lambda groups, _: groups.delete(answer, ["h"])
            )
        )
        crashed = disk.after_crash("lost")
    async with living(crashed) as life:
        assert life.log._records_since_snapshot == 2
        assert await life.offset("g") == 2
        assert await life.offset("h") is None


async def test_a_snapshot_that_cannot_be_written_costs_nothing_but_time() -> None:
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.commit("g", 1)
        disk.capacity_bytes = sum(map(len, disk.files().values()))
    disk.capacity_bytes = None
    async with living(disk) as life:
        assert await life.offset("g") == 1


@pytest.mark.parametrize("damage", ["a flipped bit", "too old", "from the future"])
async def test_a_snapshot_that_cannot_be_believed_is_not(damage: str) -> None:
    """R-STO-7: the whole log is read instead."""
    disk = SimulatedDisk()
    clock = ManualClock()
    async with living(disk, clock) as life:
        for number in range(5):
            await life.commit("g", number)
    if damage == "a flipped bit":
        disk.flip_bit(SNAPSHOT, 100, 1)
    else:
        # Tombstones that were written after an old snapshot may have been compacted away.
        clock.time_ms += 24 * 60 * 60 * 1000 * (1 if damage == "too old" else -1)
    async with living(disk, clock) as life:
        assert life.log._records_since_snapshot == 5
        assert await life.offset("g") == 4
