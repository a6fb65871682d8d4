"""Files and folders of the operating system.

Not a cache and not a policy: each call is one system call or a short loop of them. The invariant:
a descriptor lives exactly as long as somebody refers to its `OsFile`, so a slice that is being
sent outlives the deletion of its segment.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from typing import Final

from penstock.storage.files.files import Buffer, Directory

# What one writev takes on Linux and macOS (IOV_MAX).
_BUFFERS_PER_WRITE_MAX: Final = 1024
_FILE_MODE: Final = 0o640
_READ_ONLY: Final = (errno.EACCES, errno.EPERM, errno.EROFS)
_FOLDER_MODE: Final = 0o750
# macOS has no fdatasync.
_flush_data: Final = getattr(os, "fdatasync", os.fsync)


def make_folder(path: str) -> None:
    """Make the folder, and those above it that are missing; their names are durable when this
    returns. OSError."""
    missing = []
    above = os.path.abspath(path)
    while not os.path.exists(above):
        missing.append(above)
        above = os.path.dirname(above)
    os.makedirs(path, exist_ok=True)
    for made in reversed(missing):
        OsDirectory(os.path.dirname(made)).flush()


class OsFile:
    """An open file. Appends go to its end wherever that is (O_APPEND), also after a truncate."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, *, create: bool) -> None:
        self._descriptor = -1
        self.path = path
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            self._descriptor = os.open(path, flags, _FILE_MODE)
        except OSError as error:
            if create or error.errno not in _READ_ONLY:
                raise
            # Good enough to inspect; a write will fail and say so.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def append(self, buffers: Sequence[Buffer]) -> None:
        if len(buffers) == 1:
            written = os.write(self._descriptor, buffers[0])
            if written != len(buffers[0]):
                self._append_rest(buffers, written)
            return
        for start in range(0, len(buffers), _BUFFERS_PER_WRITE_MAX):
            part = buffers[start : start + _BUFFERS_PER_WRITE_MAX]
            written = os.writev(self._descriptor, part)
            if written != sum(map(len, part)):
                self._append_rest(part, written)

    def _append_rest(self, buffers: Sequence[Buffer], written: int) -> None:
        """Write what a short write (a signal, a full disk, 2 GiB at once) left over."""
        for buffer in buffers:
            skip = min(written, len(buffer))
            written -= skip
            rest = memoryview(buffer)[skip:]
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]

    def read_at(self, position: int, length: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def flush(self) -> None:
        _flush_data(self._descriptor)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class OsDirectory:
    """A folder of the file system."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self) -> list[str]:
        return os.listdir(self.path)

    def exists(self, name: str) -> bool:
        return os.path.exists(self._at(name))

    def size(self, name: str) -> int:
        return os.stat(self._at(name)).st_size

    def open(self, name: str, *, create: bool = False) -> OsFile:
        return OsFile(self._at(name), create=create)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._at(old), self._at(new))

    def move(self, name: str, target: Directory, new_name: str) -> None:
        os.rename(self._at(name), f"{target.path}/{new_name}")

    def remove(self, name: str) -> None:
        os.unlink(self._at(name))

    def remove_tree(self, name: str) -> None:
        shutil.rmtree(self._at(name))

    def flush(self) -> None:
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def subdirectory(self, name: str, *, create: bool = True) -> OsDirectory:
        path = self._at(name)
        if create:
            os.makedirs(path, _FOLDER_MODE, exist_ok=True)
        return OsDirectory(path)
