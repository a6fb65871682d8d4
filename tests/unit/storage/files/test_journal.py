"""Journals: the old payload or the new one, never a mixture, never silence."""

from __future__ import annotations

import errno

import pytest

from penstock.model.errors import CorruptLog, DiskFull, StorageFailed
from penstock.storage.files.journal import read_journal, remove_journal, write_journal
from tests.kit.simulated_disk import Persistence, SimulatedCrash, SimulatedDisk

NAME = "facts.journal"


def test_the_last_payload_is_read_back() -> None:
    root = SimulatedDisk().root
    assert read_journal(root, NAME) is None
    for payload in (b"first, longer", b"second", b""):
        write_journal(root, NAME, payload)
        assert read_journal(root, NAME) == payload
    assert root.names() == [NAME]
    remove_journal(root, NAME)
    remove_journal(root, NAME)
    assert read_journal(root, NAME) is None


@pytest.mark.parametrize("persistence", ["lost", "kept", *range(1, 20)])
def test_a_crash_at_any_operation_leaves_the_old_or_the_new(persistence: Persistence) -> None:
    """R-STO-6, for small facts."""
    for operation in range(1, 20):
        disk = SimulatedDisk()
        write_journal(disk.root, NAME, b"old")
        disk.crash_at(len(disk.operations) + operation)
        try:
            write_journal(disk.root, NAME, b"the new one")
        except SimulatedCrash:
            found = disk.after_crash(persistence)
            assert read_journal(found.root, NAME) in (b"old", b"the new one")
            write_journal(found.root, NAME, b"x")
            assert read_journal(found.root, NAME) == b"x"
        else:
            assert read_journal(disk.after_crash("lost").root, NAME) == b"the new one"
            break
    else:
        pytest.fail("it takes more operations than were tried")


def test_damage_is_reported_with_file_and_position() -> None:
    for size, position in ((0, 0), (11, 0), (12, 4), (14, 4)):
        root = SimulatedDisk().root
        write_journal(root, NAME, b"payload")
        root.open(NAME).truncate(size)
        with pytest.raises(CorruptLog, match=rf"disk/facts\.journal .* position {position}:"):
            read_journal(root, NAME)


def test_a_full_or_failing_disk_is_a_typed_error_and_keeps_the_old() -> None:
    disk = SimulatedDisk()
    write_journal(disk.root, NAME, b"old")
    disk.fail_next("append", errno.ENOSPC)
    with pytest.raises(DiskFull, match=r"writing disk/facts\.journal"):
        write_journal(disk.root, NAME, b"new")
    disk.fail_next("flush")
    with pytest.raises(StorageFailed):
        write_journal(disk.root, NAME, b"new")
    assert read_journal(disk.root, NAME) == b"old"
    disk.fail_next("remove")
    with pytest.raises(StorageFailed, match=r"removing disk/facts\.journal"):
        remove_journal(disk.root, NAME)
