"""The simulated disk: it promises what a disk promises, and breaks the rest on demand."""

from __future__ import annotations

import errno

import pytest

from penstock.storage.files.files import Directory, File
from penstock.storage.files.os_files import OsDirectory
from tests.kit.simulated_disk import SECTOR_BYTES, SimulatedCrash, SimulatedDisk


def survivors(disk: SimulatedDisk, seeds: int = 300) -> set[bytes | None]:
    """Every content that the file "a" is found with after a crash."""
    return {disk.after_crash(seed).files().get("a") for seed in range(seeds)}


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def file(disk: SimulatedDisk) -> File:
    """A file whose name is durable."""
    file = disk.root.open("a", create=True)
    disk.root.flush()
    return file


def test_it_is_what_storage_asks_for(disk: SimulatedDisk) -> None:
    """mypy holds both against the protocols; this says so to people."""
    directories: list[Directory] = [disk.root, OsDirectory("somewhere")]
    assert [directory.path for directory in directories] == ["disk", "somewhere"]


def test_without_a_crash_it_is_a_disk(disk: SimulatedDisk, file: File) -> None:
    file.append([b"one", memoryview(b"two")])
    file.truncate(4)
    assert (file.read_at(1, 100), file.size(), file.fileno()) == (b"net", 4, -1)
    folder = disk.root.subdirectory("b").subdirectory("c")
    disk.root.move("a", folder, "moved")
    assert disk.files() == {"b/c/moved": b"onet"}
    assert folder.open("moved").read_at(0, 9) == b"onet"
    with pytest.raises(FileNotFoundError):
        disk.root.open("a")
    with pytest.raises(IsADirectoryError):
        disk.root.open("b")
    disk.root.remove_tree("b")
    assert disk.root.names() == []
    assert disk.free_bytes() > 1 << 30


def test_what_was_flushed_survives_and_the_rest_may_not(disk: SimulatedDisk, file: File) -> None:
    file.append([b"flushed"])
    file.flush()
    file.append([b" and not"])
    assert disk.after_crash("lost").files() == {"a": b"flushed"}
    assert disk.after_crash("kept").files() == {"a": b"flushed and not"}
    found = survivors(disk)
    assert {b"flushed" + b" and not"[:length] for length in range(9)} <= found
    assert b"flushed" + bytes(8) in found
    assert all(content is not None and content.startswith(b"flushed") for content in found)


def test_sectors_are_lost_in_any_order(disk: SimulatedDisk, file: File) -> None:
    file.append([b"x" * 3 * SECTOR_BYTES])
    gap = b"x" * SECTOR_BYTES + bytes(SECTOR_BYTES) + b"x" * SECTOR_BYTES
    assert gap in survivors(disk)


def test_a_truncation_is_kept_or_not(disk: SimulatedDisk, file: File) -> None:
    file.append([b"12345678"])
    file.flush()
    file.truncate(2)
    assert survivors(disk) == {b"12", b"12345678"}
    file.append([b"abc"])
    assert {b"12345678", b"12abc"} <= survivors(disk)


def test_names_are_durable_after_the_folders_flush(disk: SimulatedDisk, file: File) -> None:
    file.append([b"x"])
    file.flush()
    disk.root.rename("a", "b")
    disk.root.open("c", create=True)
    found = {tuple(disk.after_crash(seed).files()) for seed in range(50)}
    assert found == {("a",), ("b",), ("a", "c"), ("b", "c")}
    disk.root.flush()
    assert tuple(disk.after_crash("lost").files()) == ("b", "c")
    disk.root.remove("b")
    assert {tuple(disk.after_crash(seed).files()) for seed in range(50)} == {("c",), ("b", "c")}


def test_a_name_needs_its_own_folders_flush(disk: SimulatedDisk) -> None:
    folder = disk.root.subdirectory("folder")
    folder.open("a", create=True).flush()
    folder.flush()
    assert disk.after_crash("lost").files() == {}
    disk.root.flush()
    assert disk.after_crash("lost").files() == {"folder/a": b""}


def test_a_crash_comes_where_it_was_asked_for_and_stays(disk: SimulatedDisk, file: File) -> None:
    disk.crash_at(len(disk.operations) + 2)
    file.append([b"1"])
    with pytest.raises(SimulatedCrash, match="at operation 4: append disk/a"):
        file.append([b"2"])
    for call in (file.size, file.flush, disk.root.names, disk.root.flush):
        with pytest.raises(SimulatedCrash):
            call()
    assert disk.after_crash("kept").files() == {"a": b"12"}
    disk.restart_process()
    assert file.read_at(0, 9) == b"12"
    assert disk.after_crash("lost").files() == {"a": b""}


def test_a_crash_in_a_flush_promises_nothing(disk: SimulatedDisk, file: File) -> None:
    file.append([b"1"])
    disk.crash_at(len(disk.operations) + 1)
    with pytest.raises(SimulatedCrash):
        file.flush()
    assert disk.after_crash("lost").files() == {"a": b""}


def test_the_same_seed_is_the_same_crash(disk: SimulatedDisk, file: File) -> None:
    file.append([bytes(range(256)) * 8])
    disk.root.open("b", create=True)
    for seed in range(20):
        assert disk.after_crash(seed).files() == disk.after_crash(seed).files()


def test_a_full_disk_takes_what_fits(file: File, disk: SimulatedDisk) -> None:
    disk.capacity_bytes = 5
    file.append([b"123"])
    with pytest.raises(OSError, match="No space left") as raised:
        file.append([b"45", b"67"])
    assert raised.value.errno == errno.ENOSPC
    assert disk.files() == {"a": b"12345"}
    assert disk.free_bytes() == 0


def test_a_failed_flush_drops_what_it_did_not_write(disk: SimulatedDisk, file: File) -> None:
    """As Linux does: still readable, reported as flushed the next time, and never on the disk."""
    file.append([b"old"])
    file.flush()
    file.append([b"new"])
    disk.fail_next("flush")
    with pytest.raises(OSError, match="Input/output"):
        file.flush()
    file.append([b"more"])
    file.flush()
    assert file.read_at(0, 100) == b"oldnewmore"
    assert disk.after_crash("kept").files() == {"a": b"old\0\0\0more"}


def test_a_flipped_bit_stays_flipped(disk: SimulatedDisk, file: File) -> None:
    file.append([b"\0\0"])
    file.flush()
    disk.flip_bit("a", 1, 3)
    assert file.read_at(0, 2) == b"\0\x08"
    assert disk.after_crash("lost").files() == {"a": b"\0\x08"}
