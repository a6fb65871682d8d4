"""A disk in memory that crashes, tears, forgets, decays, fills up and fails when it is told to.

It implements `storage.files.files`, so whatever runs on a real disk runs on this one. It promises
as little as a real one: what was flushed is there after a crash; of the rest, anything may be. The
invariant: everything that happens follows from the calls and the seed, so a failure can be
repeated.

    disk = SimulatedDisk()
    disk.crash_at(17)                       # the 17th operation that changes anything
    with pytest.raises(SimulatedCrash):
        work_on(disk.root)
    recover_on(disk.after_crash(1).root)   # 1 is a seed; or "lost", or "kept"
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from penstock.storage.files.files import Buffer, Directory

# What a disk writes whole or not at all, and so the grain in which unflushed bytes are lost.
SECTOR_BYTES: Final = 512
_ROOM_WITHOUT_LIMIT: Final = 2**40

Operation = Literal["create", "append", "truncate", "flush", "rename", "remove", "flush folder"]
Persistence = Literal["lost", "kept"] | int
"""What a crash leaves of what was not flushed: nothing, all, or what the seed says."""


class SimulatedCrash(Exception):
    """The machine stopped here. Every later call on this disk raises it again."""


@dataclass(eq=False, slots=True)
class _File:
    data: bytearray = field(default_factory=bytearray)
    """What a reader sees."""
    flushed: bytes = b""
    """What is on the platter for sure."""
    write_ends: list[int] = field(default_factory=list)
    """Where the appends since the last flush ended."""
    dropped: list[tuple[int, int]] = field(default_factory=list)
    """Stretches that a failed flush gave up: readable from the cache, never written."""

    def dirty_from(self) -> int:
        """The first byte that is not on the platter as it is read."""
        common = min(len(self.data), len(self.flushed))
        if self.data[:common] == self.flushed[:common]:
            return common
        return next(at for at in range(common) if self.data[at] != self.flushed[at])

    def written(self) -> bytes:
        """What a flush puts on the platter."""
        data = bytearray(self.data)
        for start, end in self.dropped:
            data[start:end] = bytes(end - start)
        return bytes(data)


@dataclass(eq=False, slots=True)
class _Folder:
    entries: dict[str, _File | _Folder] = field(default_factory=dict)
    durable: dict[str, _File | _Folder] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Link:
    """A name was made."""

    folder: _Folder
    name: str
    node: _File | _Folder


@dataclass(frozen=True, slots=True)
class _Unlink:
    """A name was removed."""

    folder: _Folder
    name: str


@dataclass(frozen=True, slots=True)
class _Move:
    """A name was replaced by another, at once."""

    folder: _Folder
    name: str
    target: _Folder
    new_name: str


_Change = _Link | _Unlink | _Move
_Names = dict[_Folder, dict[str, _File | _Folder]]


class SimulatedDisk:
    """The disk and its faults. `root` is its top folder."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        """Bytes of all files together; an append beyond writes what fits and fails."""
        self.operations: list[str] = []
        """Every operation so far that changed anything, or tried to."""
        self.crashed = False
        self._top = _Folder()
        self._changes: list[_Change] = []
        self._crash_at: int | None = None
        self._failures: list[tuple[Operation, int]] = []

    @property
    def root(self) -> SimulatedDirectory:
        return SimulatedDirectory(self, self._top, "disk")

    # --- faults --------------------------------------------------------------------------------

    def crash_at(self, operation_number: int) -> None:
        """Crash at that operation, counted from 1 since the disk was made."""
        self._crash_at = operation_number

    def fail_next(self, operation: Operation, error_number: int = errno.EIO) -> None:
        """Let the next operation of the kind fail. A failed flush drops what it did not write."""
        self._failures.append((operation, error_number))

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Let a bit of a file decay, in the cache and on the platter."""
        file = self._find(path)
        file.data[position] ^= 1 << bit
        if position < len(file.flushed):
            flushed = bytearray(file.flushed)
            flushed[position] ^= 1 << bit
            file.flushed = bytes(flushed)

    def flushed_bytes(self, path: str) -> int:
        """How much of the file is on the platter for sure."""
        return len(self._find(path).flushed)

    def files(self) -> dict[str, bytes]:
        """Every file as a reader sees it, by its path below the root."""
        return {path: bytes(file.data) for path, file in _walk(self._top)}

    def mend(self) -> None:
        """Let nothing more fail that was to, and let there be room."""
        self.capacity_bytes = None
        self._crash_at = None
        self._failures.clear()

    def holds(self, folder: str, data: bytes, *, durably: bool) -> bool:
        """Whether a file of the folder has the bytes; durably: whatever a crash takes."""
        node: _File | _Folder = self._top
        for name in folder.split("/"):
            assert isinstance(node, _Folder), folder
            found = (node.durable if durably else node.entries).get(name)
            if found is None:
                return False
            node = found
        assert isinstance(node, _Folder), folder
        if durably:
            files = [file.flushed for file in node.durable.values() if isinstance(file, _File)]
        else:
            files = [bytes(file.data) for file in node.entries.values() if isinstance(file, _File)]
        return any(data in file for file in files)

    def restart_process(self) -> None:
        """Go on after a crash of the process alone: the machine still has all in its cache."""
        self.crashed = False
        self._crash_at = None

    def after_crash(self, persistence: Persistence) -> SimulatedDisk:
        """A new disk as it is found after the machine stopped; this one stays as it is."""
        seed = persistence if isinstance(persistence, int) else 0
        chance = random.Random(seed)
        names: _Names = {}
        for change in self._changes:
            if persistence == "kept" or (persistence != "lost" and chance.random() < 0.5):
                _apply(change, names)
        disk = SimulatedDisk(capacity_bytes=self.capacity_bytes)
        disk._top = _restart(self._top, names, persistence, chance)
        return disk

    # --- what files and folders call -----------------------------------------------------------

    def check_running(self) -> None:
        if self.crashed:
            raise SimulatedCrash("the disk has crashed")

    def begin(self, operation: Operation, path: str) -> bool:
        """Count an operation and fail it if it is to fail. True if the crash comes with it."""
        self.check_running()
        self.operations.append(f"{operation} {path}")
        for number, (failing, error_number) in enumerate(self._failures):
            if failing == operation:
                del self._failures[number]
                raise OSError(error_number, os.strerror(error_number), path)
        return len(self.operations) == self._crash_at

    def end(self, crash: bool) -> None:
        if crash:
            self.crashed = True
            raise SimulatedCrash(f"at operation {len(self.operations)}: {self.operations[-1]}")

    def change(self, change: _Change) -> None:
        self._changes.append(change)

    def flush_folder(self, folder: _Folder) -> None:
        waiting = []
        for change in self._changes:
            if folder is change.folder or (isinstance(change, _Move) and folder is change.target):
                _apply(change, None)
            else:
                waiting.append(change)
        self._changes = waiting

    def free_bytes(self) -> int:
        if self.capacity_bytes is None:
            return _ROOM_WITHOUT_LIMIT
        return max(self.capacity_bytes - sum(len(file.data) for _, file in _walk(self._top)), 0)

    def _find(self, path: str) -> _File:
        folder = self._top
        *folders, name = path.split("/")
        for part in folders:
            node = folder.entries[part]
            assert isinstance(node, _Folder), path
            folder = node
        file = folder.entries[name]
        assert isinstance(file, _File), path
        return file


class SimulatedFile:
    """A file of a `SimulatedDisk`; see `storage.files.files.File`."""

    __slots__ = ("_disk", "_file", "path")

    def __init__(self, disk: SimulatedDisk, file: _File, path: str) -> None:
        self._disk = disk
        self._file = file
        self.path = path

    def append(self, buffers: Sequence[Buffer]) -> None:
        crash = self._disk.begin("append", self.path)
        data = b"".join(buffers)
        room = self._disk.free_bytes()
        self._file.data += data[:room]
        self._file.write_ends.append(len(self._file.data))
        self._disk.end(crash)
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)

    def read_at(self, position: int, length: int) -> bytes:
        self._disk.check_running()
        return bytes(self._file.data[position : position + length])

    def truncate(self, size: int) -> None:
        crash = self._disk.begin("truncate", self.path)
        assert size <= len(self._file.data), (size, len(self._file.data))
        del self._file.data[size:]
        self._file.dropped = [
            (start, min(end, size)) for start, end in self._file.dropped if start < size
        ]
        self._file.write_ends = [end for end in self._file.write_ends if end <= size]
        self._disk.end(crash)

    def flush(self) -> None:
        file = self._file
        try:
            crash = self._disk.begin("flush", self.path)
        except OSError:
            file.dropped.append((file.dirty_from(), len(file.data)))
            raise
        # A crash in a flush comes before its promise, with any part of it done.
        self._disk.end(crash)
        file.flushed = file.written()
        file.write_ends = []

    def size(self) -> int:
        self._disk.check_running()
        return len(self._file.data)

    def fileno(self) -> int:
        return -1

    def close(self) -> None:
        """Nothing to let go of."""


class SimulatedDirectory:
    """A folder of a `SimulatedDisk`; see `storage.files.files.Directory`."""

    __slots__ = ("_disk", "folder", "path")

    def __init__(self, disk: SimulatedDisk, folder: _Folder, path: str) -> None:
        self._disk = disk
        self.folder = folder
        self.path = path

    def names(self) -> list[str]:
        self._disk.check_running()
        return list(self.folder.entries)

    def exists(self, name: str) -> bool:
        self._disk.check_running()
        return name in self.folder.entries

    def size(self, name: str) -> int:
        return self.open(name).size()

    def open(self, name: str, *, create: bool = False) -> SimulatedFile:
        self._disk.check_running()
        if create and name not in self.folder.entries:
            self._make(name, _File())
        node = self._at(name)
        if not isinstance(node, _File):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path(name))
        return SimulatedFile(self._disk, node, self._path(name))

    def rename(self, old: str, new: str) -> None:
        self.move(old, self, new)

    def move(self, name: str, target: Directory, new_name: str) -> None:
        assert isinstance(target, SimulatedDirectory), target
        crash = self._disk.begin("rename", self._path(name))
        node = self._at(name)
        del self.folder.entries[name]
        target.folder.entries[new_name] = node
        self._disk.change(_Move(self.folder, name, target.folder, new_name))
        self._disk.end(crash)

    def remove(self, name: str) -> None:
        crash = self._disk.begin("remove", self._path(name))
        self._at(name)
        del self.folder.entries[name]
        self._disk.change(_Unlink(self.folder, name))
        self._disk.end(crash)

    def remove_tree(self, name: str) -> None:
        folder = self.subdirectory(name, create=False)
        for child in folder.names():
            if isinstance(folder.folder.entries[child], _Folder):
                folder.remove_tree(child)
            else:
                folder.remove(child)
        self.remove(name)

    def flush(self) -> None:
        crash = self._disk.begin("flush folder", self.path)
        self._disk.end(crash)
        self._disk.flush_folder(self.folder)

    def subdirectory(self, name: str, *, create: bool = True) -> SimulatedDirectory:
        self._disk.check_running()
        if create and name not in self.folder.entries:
            self._make(name, _Folder())
        node = self.folder.entries.get(name)
        if node is None:
            node = _Folder()  # Like a path that leads nowhere: every use of it finds nothing.
        assert isinstance(node, _Folder), name
        return SimulatedDirectory(self._disk, node, self._path(name))

    def _make(self, name: str, node: _File | _Folder) -> None:
        crash = self._disk.begin("create", self._path(name))
        self.folder.entries[name] = node
        self._disk.change(_Link(self.folder, name, node))
        self._disk.end(crash)

    def _at(self, name: str) -> _File | _Folder:
        try:
            return self.folder.entries[name]
        except KeyError:
            path = self._path(name)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}"


def _walk(folder: _Folder, prefix: str = "") -> Iterator[tuple[str, _File]]:
    for name, node in sorted(folder.entries.items()):
        if isinstance(node, _File):
            yield prefix + name, node
        else:
            yield from _walk(node, f"{prefix}{name}/")


def _apply(change: _Change, names: _Names | None) -> None:
    """Make the change in the durable names: the real ones, or a crash's copy of them."""

    def of(folder: _Folder) -> dict[str, _File | _Folder]:
        return folder.durable if names is None else names.setdefault(folder, dict(folder.durable))

    match change:
        case _Link(folder, name, node):
            of(folder)[name] = node
        case _Unlink(folder, name):
            of(folder).pop(name, None)
        case _Move(folder, name, target, new_name):
            moved = of(folder).pop(name, None)
            # Its creation may have been lost; then there is nothing to rename.
            if moved is not None:
                of(target)[new_name] = moved


def _restart(
    folder: _Folder, names: _Names, persistence: Persistence, chance: random.Random
) -> _Folder:
    """A copy of the folder with what a crash left, all of it durable."""
    found = _Folder()
    for name, node in sorted(names.get(folder, folder.durable).items()):
        if isinstance(node, _File):
            data = _survivor(node, persistence, chance)
            found.entries[name] = _File(data=bytearray(data), flushed=data)
        else:
            found.entries[name] = _restart(node, names, persistence, chance)
    found.durable = dict(found.entries)
    return found


def _survivor(file: _File, persistence: Persistence, chance: random.Random) -> bytes:
    """The bytes of a file after a crash."""
    if persistence == "lost":
        return file.flushed
    written = file.written()
    start = file.dirty_from()
    if persistence == "kept" or (start == len(written) == len(file.flushed)):
        return written
    match chance.randrange(5):
        case 0:
            return file.flushed
        case 1:
            return written
        case 2:  # torn at any byte
            return written[: chance.randint(start, len(written))]
        case 3:  # torn, but the file's new size is there: zeros from a sector or a write on
            edges = [end for end in (start, *file.write_ends) if start <= end <= len(written)]
            edges += range(start + -start % SECTOR_BYTES, len(written), SECTOR_BYTES)
            return written[: chance.choice(edges)].ljust(len(written), b"\0")
        case _:  # each sector for itself, in any order
            before = file.flushed[: len(written)].ljust(len(written), b"\0")
            sectors = []
            for position in range(0, len(written), SECTOR_BYTES):
                source = written if chance.random() < 0.5 else before
                sectors.append(source[position : position + SECTOR_BYTES])
            return b"".join(sectors)
