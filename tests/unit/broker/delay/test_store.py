"""What a copy of `__delayed` says: read from its beginning, or from what was saved of it."""

from __future__ import annotations

import pytest

from penstock.broker.delay import store as store_module
from penstock.broker.delay.store import first_record
from penstock.model.errors import Busy, CorruptLog, NotCoordinator, StorageFailed
from penstock.records import build_batch
from tests.kit.broker.delay import living
from tests.kit.broker.running import ManualClock
from tests.kit.simulated_disk import SimulatedDisk


@pytest.fixture(autouse=True)
def saved_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_BATCHES_PER_SAVE", 10)


def index_files(disk: SimulatedDisk) -> list[str]:
    return [path for path in disk.files() if path.startswith("topics/__delayed/0/due/")]


async def filled(disk: SimulatedDisk, clock: ManualClock) -> None:
    async with living(disk, clock) as life:
        for at in range(40):
            await life.delay(b"%d" % at, after_ms=1000 + at)
        await life.until(lambda: not life.store._is_saving)


async def test_a_start_reads_what_came_after_the_last_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-13: ten million that wait must not be read one by one."""
    disk, clock = SimulatedDisk(), ManualClock()
    await filled(disk, clock)
    assert index_files(disk)
    async with living(disk, clock) as life:
        await life.until_serving()
        assert life.store._batches_since_save < 30
        assert life.store.table.pending == 40
        await life.advance(2000)
        assert life.values() == [b"%d" % at for at in range(40)]


@pytest.mark.parametrize("damage", ["flip", "decayed", "removed"])
async def test_an_index_that_is_damaged_or_foreign_is_made_anew(damage: str) -> None:
    """R-DEL-13."""
    disk, clock = SimulatedDisk(), ManualClock()
    await filled(disk, clock)
    (journal,) = [path for path in index_files(disk) if path.endswith("due.journal")]
    runs = [path for path in index_files(disk) if path.endswith(".due")]
    if damage == "flip":
        disk.flip_bit(journal, 30, 2)
    elif damage == "decayed":
        for path in runs:
            disk.flip_bit(path, 10, 1)
    else:
        folder = disk.root
        for name in ("topics", "__delayed", "0", "due"):
            folder = folder.subdirectory(name)
        folder.remove(runs[0].rpartition("/")[2])
    async with living(disk, clock) as life:
        await life.until_serving()
        assert life.store.table.pending == 40
        life.clock.time_ms += 2000
        life.service.deliverer.wake()
        await life.until(lambda: life.values() == [b"%d" % at for at in range(40)])


async def test_damage_that_is_found_while_cancelling_is_mended() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    await filled(disk, clock)
    async with living(disk, clock) as life:
        await life.until_serving()
        for path in index_files(disk):
            if path.endswith(".due"):
                disk.flip_bit(path, 10, 1)
        for run in life.store.index.runs():
            run._last_key = b""
        service = life.service
        with pytest.raises(Busy, match="read anew"):
            await life.coordinator.cancel([(clock.now_ms() + 1000, 2)])
        await life.until(lambda: life.coordinator._service not in (None, service))
        assert await life.coordinator.cancel([(clock.now_ms() + 1000, 2)]) == [True]


async def test_a_message_that_is_not_there_is_corruption() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"a", after_ms=50)
        assert life.store.message(2).value == b"a"
        for offset in (0, 1):
            with pytest.raises(CorruptLog):
                life.store.message(offset)


async def test_a_folder_that_cannot_be_used_is_told() -> None:
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        await life.delay(b"a", after_ms=50)
        life.lose()
        await life.settle_turns()
        life.coordinator._close_store()
        life.coordinator._fail(life.partitions.find("__delayed", 0), CorruptLog("no use"))
        with pytest.raises(NotCoordinator):
            await life.delay(b"b")
        life.partitions.find("__delayed", 0).replica.is_leader = True
        with pytest.raises(StorageFailed, match="cannot be served"):
            await life.delay(b"b")


def test_the_first_record_is_found_without_the_others() -> None:
    batch = build_batch([(b"k", b"v" * 300), (b"x", b"y")])
    assert first_record(memoryview(batch)) == (b"k", b"v" * 300)
    for wrong in (build_batch([(b"k", None)]), batch[:70]):
        with pytest.raises(CorruptLog):
            first_record(memoryview(wrong))


async def test_it_is_saved_when_it_stops_so_that_a_start_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "_BATCHES_PER_SAVE", 10**6)
    disk, clock = SimulatedDisk(), ManualClock()
    async with living(disk, clock) as life:
        await life.delay(b"a", b"b", after_ms=1000)
        assert index_files(disk) == []
    async with living(disk, clock) as life:
        monkeypatch.setattr(store_module, "decode_head", None)
        await life.until_serving()
        await life.advance(1000)
        assert life.values() == [b"a", b"b"]


async def test_many_bytes_are_saved_as_many_batches_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_BATCHES_PER_SAVE", 10**6)
    monkeypatch.setattr(store_module, "_BYTES_PER_SAVE", 3000)
    disk = SimulatedDisk()
    async with living(disk) as life:
        await life.delay(b"x" * 1000, after_ms=1000)
        assert index_files(disk) == []
        await life.delay(b"x" * 2000, after_ms=1000)
        await life.until(lambda: index_files(disk) != [])
