"""The due index: in order, whatever is in files and what in memory, and after any crash."""

from __future__ import annotations

import errno
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import DiskFull, StorageFailed
from penstock.storage.due.index import LAST, DueIndex, DueReader, discard, scan
from penstock.storage.due.run import Entry
from tests.kit.broker.running import peak_bytes
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk

START = (0, 0)


def small(disk: SimulatedDisk) -> DueIndex:
    return DueIndex(disk.root, in_memory_max=8, runs_max=3)


def save(
    index: DueIndex, offset: int = 0, state: bytes = b"", floor: tuple[int, int] = START
) -> None:
    job = index.save(offset, 1, state, floor)
    assert job is not None
    job.run()
    index.saved(job)


def all_of(index: DueIndex, after: tuple[int, int] = START) -> list[tuple[int, int, int]]:
    found: list[Entry] = []
    for _ in scan(index, after, found.append):
        """To the end."""
    return [(entry.due_ms, entry.number, entry.offset) for entry in found]


class Model:
    """What an index should say."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int], int] = {}
        self.offset = 0

    def step(self, index: DueIndex, chance: random.Random) -> None:
        self.offset += 1
        waiting = list(self.known)
        kind = chance.random()
        if waiting and kind < 0.2:
            key = chance.choice(waiting)
            del self.known[key]
            index.cancel(*key, self.offset)
        elif waiting and kind < 0.3:
            key = chance.choice(waiting)
            self.known[key] = self.offset
            index.put(*key, self.offset, 1, 5)
        else:
            key = chance.randrange(50), self.offset
            self.known[key] = self.offset
            index.put(*key, self.offset, 1, 5)

    def after(self, floor: tuple[int, int]) -> list[tuple[int, int, int]]:
        return sorted((*key, offset) for key, offset in self.known.items() if key > floor)


@given(seed=st.integers(0, 10**9), steps=st.integers(1, 150))
@settings(deadline=None)
def test_it_says_what_was_put_and_not_cancelled_in_order(seed: int, steps: int) -> None:
    """R-DEL-13: by due time, equal ones by number; also while files are written and merged, and
    when it is opened again."""
    chance = random.Random(seed)
    disk = SimulatedDisk()
    index, model = small(disk), Model()
    floor = START
    merging: Iterable[None] = iter(())
    for _ in range(steps):
        model.step(index, chance)
        next(iter(merging), None)
        if index.is_full or chance.random() < 0.05:
            save(index, model.offset, b"state", floor)
            merging = index.merge(floor)
        if chance.random() < 0.1:
            floor = max(floor, (chance.randrange(50), chance.randrange(steps)))
        assert all_of(index, floor) == model.after(floor)
    save(index, model.offset, b"state", floor)
    found = DueIndex.open(disk.after_crash("lost").root)
    assert found is not None
    assert (found.offset, found.term, found.state) == (model.offset, 1, b"state")
    assert all_of(found.index, floor) == model.after(floor)
    for key, offset in model.known.items():
        if key > floor:
            entry = found.index.find(*key)
            assert entry is not None
            assert entry.offset == offset
    assert found.index.find(999, 1) is None


@pytest.mark.parametrize("persistence", ["lost", "kept", 1, 2, 3])
def test_a_crash_at_any_operation_leaves_an_index_as_it_was_saved(persistence: Persistence) -> None:
    """R-DEL-13, R-STO-6: the one before or the one after, whole; the log tells the rest."""
    for operation in range(1, 200):
        disk = SimulatedDisk()
        index, model = small(disk), Model()
        chance = random.Random(5)
        states: dict[int, list[tuple[int, int, int]]] = {}
        disk.crash_at(operation)
        try:
            for _ in range(60):
                model.step(index, chance)
                if index.is_full:
                    states[model.offset] = model.after(START)
                    save(index, model.offset)
                    for _ in index.merge(START):
                        """To the end."""
        except SimulatedCrash:
            found = DueIndex.open(disk.after_crash(persistence).root)
            if found is not None:
                assert all_of(found.index) == states[found.offset]
        else:
            assert operation > 30
            return
    pytest.fail("it takes more operations than were tried")


def test_a_reader_keeps_its_place_while_files_come_and_go() -> None:
    index = small(SimulatedDisk())
    reader = DueReader(index, START)
    for number in range(1, 6):
        index.put(number, number, number, 1, 5)
    assert [entry.due_ms for entry in reader.take((2, 99), 10)] == [1, 2]
    save(index)
    index.put(3, 9, 9, 1, 5)
    assert reader.next_due_ms() == 3
    assert [entry.number for entry in reader.take(LAST, 2)] == [3, 9]
    assert not reader.is_at_end
    index.put(2, 10, 10, 1, 5)  # before its place
    for number in range(20, 60):
        index.put(number, number, number, 1, 5)
        save(index)
        for _ in index.merge((3, 9)):
            """To the end."""
    assert len(index.runs()) <= 4
    assert [entry.number for entry in reader.take(LAST, 100)] == [4, 5, *range(20, 60)]
    assert reader.after == (59, 59)
    assert reader.next_due_ms() is None


def test_what_is_taken_at_once_is_bounded_also_where_all_was_cancelled() -> None:
    index = DueIndex(SimulatedDisk().root)
    for number in range(1, 100):
        index.put(5, number, number, 1, 5)
        index.cancel(5, number, 1000 + number)
    reader = DueReader(index, START)
    assert reader.take(LAST, 10) == []
    assert reader.after == (5, 10)
    assert not reader.is_at_end


def test_spent_files_are_let_go_and_removed() -> None:
    disk = SimulatedDisk()
    index = small(disk)
    for number in range(1, 6):
        index.put(number, number, number, 1, 5)
    save(index)
    assert len(index.runs()) == 1
    save(index, floor=(5, 5))
    assert index.runs() == []
    assert disk.root.names() == ["due.journal"]


@pytest.mark.parametrize("damage", ["journal", "file", "missing", "name"])
def test_what_cannot_be_believed_is_made_anew(damage: str) -> None:
    disk = SimulatedDisk()
    index = small(disk)
    index.put(1, 1, 1, 1, 5)
    save(index)
    (name,) = [name for name in disk.root.names() if name.endswith(".due")]
    match damage:
        case "journal":
            disk.flip_bit("due.journal", 20, 1)
        case "file":
            disk.root.open(name).truncate(10)
        case "missing":
            disk.root.remove(name)
        case "name":
            disk.root.open("x.due", create=True)
    assert DueIndex.open(disk.root) is None
    discard(disk.root)
    assert disk.root.names() == []
    assert DueIndex.open(disk.root) is None


def test_a_failed_save_is_made_up_for_by_the_next() -> None:
    disk = SimulatedDisk()
    index = small(disk)
    index.put(1, 1, 1, 1, 5)
    disk.fail_next("append", errno.ENOSPC)
    with pytest.raises(DiskFull):
        index.save(1, 1, b"", START)
    assert all_of(index) == [(1, 1, 1)]
    disk.fail_next("flush", errno.EIO)
    with pytest.raises(StorageFailed):
        save(index, 1)
    assert index.save(1, 1, b"", START) is not None, "there is none under way"
    index = small(disk)
    index.put(2, 2, 2, 1, 5)
    save(index, 2)
    found = DueIndex.open(disk.after_crash("lost").root)
    assert found is not None
    assert all_of(found.index) == [(2, 2, 2)]


def test_what_has_passed_is_forgotten_without_a_file() -> None:
    index = DueIndex(SimulatedDisk().root, in_memory_max=1000)

    def put_and_prune() -> None:
        for number in range(1, 20_000):
            index.put(number, number, number, 1, 5)
            if index.is_full:
                index.prune((number - 10, 0))
                assert not index.is_half_full

    assert peak_bytes(put_and_prune) < 500_000
