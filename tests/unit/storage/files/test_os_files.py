"""Files and folders of the real file system."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.storage.files.files import Buffer
from penstock.storage.files.os_files import OsDirectory


@pytest.fixture
def folder(tmp_path: Path) -> OsDirectory:
    return OsDirectory(str(tmp_path))


def test_appends_go_to_the_end_also_after_a_truncate(folder: OsDirectory) -> None:
    file = folder.open("a", create=True)
    file.append([b"one", bytearray(b"two")])
    file.truncate(4)
    file.append([memoryview(b"three")])
    file.flush()
    assert file.size() == folder.size("a") == 9
    assert file.read_at(0, 100) == b"onetthree"
    assert file.read_at(4, 2) == b"th"
    assert file.read_at(9, 10) == b""


def test_more_buffers_than_one_call_takes(folder: OsDirectory) -> None:
    file = folder.open("a", create=True)
    parts = [b"%d," % number for number in range(5000)]
    file.append(parts)
    assert file.read_at(0, 1 << 20) == b"".join(parts)


def test_short_writes_are_completed(folder: OsDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write may take less than it was given: a signal, or almost no room."""
    write = os.write

    def short_write(descriptor: int, data: Buffer) -> int:
        return write(descriptor, bytes(data)[:3])

    def short_writev(descriptor: int, buffers: Sequence[Buffer]) -> int:
        return write(descriptor, b"".join(buffers)[:5])

    monkeypatch.setattr(os, "write", short_write)
    monkeypatch.setattr(os, "writev", short_writev)
    file = folder.open("a", create=True)
    file.append([b"one buffer"])
    file.append([b"and", b"several", b"", b"more"])
    assert file.read_at(0, 100) == b"one bufferandseveralmore"


def test_a_removed_file_stays_readable_while_somebody_has_it(folder: OsDirectory) -> None:
    file = folder.open("a", create=True)
    file.append([b"still here"])
    folder.remove("a")
    assert not folder.exists("a")
    assert file.read_at(0, 100) == b"still here"


def test_the_descriptor_goes_with_the_last_reference(folder: OsDirectory) -> None:
    file = folder.open("a", create=True)
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_close_twice_is_fine(folder: OsDirectory) -> None:
    file = folder.open("a", create=True)
    file.close()
    file.close()
    assert file.fileno() == -1


def test_only_create_makes_a_file_and_strangers_cannot_read_it(folder: OsDirectory) -> None:
    with pytest.raises(FileNotFoundError):
        folder.open("a")
    folder.open("a", create=True).append([b"kept"])
    assert folder.open("a", create=True).read_at(0, 10) == b"kept"
    assert stat.S_IMODE(os.stat(f"{folder.path}/a").st_mode) & 0o007 == 0


def test_names_renames_moves_and_trees(folder: OsDirectory) -> None:
    topics = folder.subdirectory("topics")
    trash = folder.subdirectory("trash")
    partition = topics.subdirectory("orders").subdirectory("0")
    partition.open("log", create=True)
    partition.rename("log", "log.deleted")
    partition.flush()
    assert partition.names() == ["log.deleted"]
    topics.move("orders", trash, "orders.1")
    assert topics.names() == []
    trash.remove_tree("orders.1")
    assert trash.names() == []
    assert not folder.subdirectory("absent", create=False).exists("x")


def test_a_file_that_may_not_be_written_can_still_be_read(
    folder: OsDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a folder on a read-only disk can be inspected."""
    folder.open("a", create=True).append([b"kept"])
    real_open = os.open

    def open_on_a_read_only_disk(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_RDWR:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return real_open(path, flags, mode)

    monkeypatch.setattr(os, "open", open_on_a_read_only_disk)
    file = folder.open("a")
    assert file.read_at(0, 10) == b"kept"
    with pytest.raises(OSError, match="descriptor"):
        file.append([b"x"])
    with pytest.raises(OSError, match="Read-only"):
        folder.open("b", create=True)
