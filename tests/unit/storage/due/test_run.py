"""Files of the due index: found by key, and damage is never taken for an entry."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import CorruptLog, DiskFull
from penstock.storage.due.run import (
    DueRun,
    Entry,
    RunCursor,
    RunWriter,
    key_of,
    pack,
    read_key,
    unpack,
)
from tests.kit.simulated_disk import SimulatedDisk

NAME = "000000000000.due"


def written(disk: SimulatedDisk, count: int) -> DueRun:
    writer = RunWriter(disk.root, NAME)
    for number in range(count):
        writer.write([pack(10 * number, number + 1, number, 7, 1)])
    return writer.finish()


def rest(run: DueRun, after: tuple[int, int]) -> list[int]:
    cursor = RunCursor(run, key_of(*after))
    found = []
    while cursor.head is not None:
        found.append(unpack(cursor.head).offset)
        cursor.advance()
    return found


def test_the_order_of_bytes_is_that_of_numbers() -> None:
    entries = [(0, 0), (0, 255), (0, 256), (1, 0), (255, 3), (256, 2), (2**40, 1), (2**62, 2**62)]
    packed = [pack(*key, 0, 0, 1) for key in entries]
    assert sorted(packed) == packed
    assert [read_key(entry[:16]) for entry in packed] == entries
    assert unpack(pack(5, 6, 7, 8, 9)) == Entry(5, 6, 7, 8, 9)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 256, 1000])
def test_entries_are_found_from_any_key_on(count: int) -> None:
    disk = SimulatedDisk()
    written(disk, count)
    run = DueRun.open(disk.root, NAME, count)
    assert rest(run, (0, 0)) == list(range(count))
    for at in {0, 1, 126, 127, 128, 129, 254, 255, 256, count - 1} & set(range(count)):
        assert rest(run, (10 * at, at + 1)) == list(range(at + 1, count))
        assert rest(run, (10 * at, at)) == list(range(at, count))
        assert rest(run, (10 * at + 5, 0)) == list(range(at + 1, count))
    assert run.is_spent(key_of(10 * count, count))
    assert run.is_spent(key_of(10 * (count - 1) + 1, 0)) or count == 0
    assert not run.is_spent(key_of(0, 0)) or count == 0


@pytest.mark.parametrize("position", [0, 3, 4, 40, 4100, 5000])
def test_damage_is_noticed(position: int) -> None:
    disk = SimulatedDisk()
    written(disk, 300)
    disk.flip_bit(NAME, position, 3)
    run = DueRun.open(disk.root, NAME, 300)
    with pytest.raises(CorruptLog, match="is damaged"):
        rest(run, (0, 0))


@pytest.mark.parametrize("count", [0, 298, 299, 301])
def test_a_file_of_another_length_is_not_believed(count: int) -> None:
    disk = SimulatedDisk()
    written(disk, 300)
    with pytest.raises(CorruptLog, match="which are not"):
        DueRun.open(disk.root, NAME, count)


def test_a_full_disk_is_a_typed_error() -> None:
    disk = SimulatedDisk()
    disk.fail_next("append", errno.ENOSPC)
    with pytest.raises(DiskFull):
        written(disk, 300)
