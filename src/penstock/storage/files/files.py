"""The only way storage touches the world: a file that grows at its end, and a folder of files.

Not an implementation: `storage.files.os_files` is the real one, `tests.kit.simulated_disk` the one
that crashes on demand. The invariant both keep: what `flush` returned for is there after a crash,
and nothing else is promised, neither bytes of a file nor the names in a folder.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Final, Protocol

from penstock.model.errors import DiskFull, StorageError, StorageFailed

Buffer = bytes | bytearray | memoryview

# The last: beyond what a process is allowed to write (RLIMIT_FSIZE). All of them may pass.
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class File(Protocol):
    """A file read anywhere and written only at its end. Every call may raise OSError."""

    @property
    def path(self) -> str:
        """Where it was opened, for messages."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Write all the buffers. After an OSError some of the bytes may be there."""

    def read_at(self, position: int, length: int) -> bytes:
        """The bytes from the position on; fewer than asked only where the file ends."""

    def truncate(self, size: int) -> None: ...

    def flush(self) -> None:
        """Make the bytes durable (not the name: that is the folder's)."""

    def size(self) -> int: ...

    def fileno(self) -> int:
        """The descriptor for sendfile, or -1 where there is none."""

    def close(self) -> None: ...


class Directory(Protocol):
    """A folder. Every call may raise OSError; names become durable by `flush`."""

    @property
    def path(self) -> str:
        """Where it is, for messages."""

    def names(self) -> list[str]: ...

    def exists(self, name: str) -> bool: ...

    def size(self, name: str) -> int:
        """Bytes of the named file, without opening it."""

    def open(self, name: str, *, create: bool = False) -> File:
        """The named file as it is; `create` makes an empty one where there is none."""

    def rename(self, old: str, new: str) -> None:
        """Rename within the folder, replacing what has the new name."""

    def move(self, name: str, target: Directory, new_name: str) -> None:
        """Rename a file or folder into another folder of the same disk."""

    def remove(self, name: str) -> None: ...

    def remove_tree(self, name: str) -> None:
        """Remove a subfolder and all in it; not atomic, so move it out of the way first."""

    def flush(self) -> None:
        """Make the names in this folder durable: creations, renames, removals."""

    def subdirectory(self, name: str, *, create: bool = True) -> Directory:
        """The named subfolder. A created one is durable after `flush` of this folder."""


def typed(error: OSError, doing: str) -> StorageError:
    """What the disk refused, as an error a user can be shown."""
    if error.errno in _NO_ROOM:
        return DiskFull(f"The disk is full, {doing}: free some room or shorten the retention.")
    return StorageFailed(f"The disk failed, {doing}: {error.strerror or error}; check the disk.")


def remove_if_there(directory: Directory, name: str) -> None:
    if directory.exists(name):
        directory.remove(name)
