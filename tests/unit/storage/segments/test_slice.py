"""Slices: a place in a file, read only when asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import CorruptLog, StorageFailed
from penstock.storage.files.os_files import OsDirectory
from penstock.storage.segments.slice import EMPTY, FileSlice
from tests.kit.simulated_disk import SimulatedDisk


def test_reads_its_stretch_and_outlives_the_file(tmp_path: Path) -> None:
    folder = OsDirectory(str(tmp_path))
    file = folder.open("a", create=True)
    file.append([b"0123456789"])
    part = FileSlice(file, 2, 5)
    descriptor = file.fileno()
    folder.remove("a")
    del file
    assert part.fileno() == descriptor
    assert (part.position, part.length, part.read()) == (2, 5, b"23456")


def test_the_empty_slice_needs_no_file() -> None:
    assert (EMPTY.length, EMPTY.read(), EMPTY.fileno()) == (0, b"", -1)


def test_a_file_cut_behind_our_back_is_corrupt() -> None:
    file = SimulatedDisk().root.open("a", create=True)
    file.append([b"0123"])
    with pytest.raises(CorruptLog, match="disk/a ends at position 4"):
        FileSlice(file, 2, 5).read()


def test_a_failing_disk_is_a_typed_error(tmp_path: Path) -> None:
    file = OsDirectory(str(tmp_path)).open("a", create=True)
    file.close()
    with pytest.raises(StorageFailed, match="Bad file descriptor"):
        FileSlice(file, 0, 1).read()
