"""A file of the due index: entries in order, in blocks that are checked when they are read.

An entry is 32 bytes, big endian, so that their order is that of the bytes:

    when it is due, ms, i64 | its number, i64 | the offset that says so, i64 | lane, u32 | size, u32

Of two with the same first 16 bytes the later offset counts; a size of 0 says that it was cancelled.
A block is the CRC-32C of up to 128 entries, and these. Not which files there are: that is
`storage.due.index`. The invariant: an entry that is handed out is one that was written, or it is
CorruptLog.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.model.errors import CorruptLog
from penstock.storage.files.files import Directory, File, typed

ENTRY_BYTES: Final = 32
KEY_BYTES: Final = 16
SUFFIX: Final = ".due"
_ENTRY: Final = struct.Struct(">qqqII")
_KEY: Final = struct.Struct(">qq")
_CRC: Final = struct.Struct(">I")
_BLOCK_ENTRIES: Final = 128
_BLOCK_BYTES: Final = _CRC.size + _BLOCK_ENTRIES * ENTRY_BYTES


class Entry(NamedTuple):
    """One message that waits, and where it is; or, of size 0, that it does not."""

    due_ms: int
    number: int
    offset: int
    lane: int
    size: int


def pack(due_ms: int, number: int, offset: int, lane: int, size: int) -> bytes:
    return _ENTRY.pack(due_ms, number, offset, lane, size)


def unpack(entry: bytes) -> Entry:
    return Entry._make(_ENTRY.unpack(entry))


def key_of(due_ms: int, number: int) -> bytes:
    return _KEY.pack(due_ms, number)


def read_key(key: bytes) -> tuple[int, int]:
    due_ms, number = _KEY.unpack(key)
    return due_ms, number


class RunWriter:
    """Writes entries, given in order, a block at a time."""

    def __init__(self, directory: Directory, name: str) -> None:
        self._name = name
        try:
            self._file = directory.open(name, create=True)
            self._file.truncate(0)
        except OSError as error:
            raise typed(error, f"writing {directory.path}/{name}") from error
        self._waiting: list[bytes] = []
        self._count = 0
        self._first_keys = bytearray()
        self._last_key = b""

    def write(self, entries: Iterable[bytes]) -> None:
        self._waiting += entries
        whole = len(self._waiting) // _BLOCK_ENTRIES * _BLOCK_ENTRIES
        if whole:
            self._append(self._waiting[:whole])
            del self._waiting[:whole]

    def finish(self) -> DueRun:
        """The file, which is not flushed yet."""
        if self._waiting:
            self._append(self._waiting)
            self._waiting = []
        return DueRun(self._file, self._name, self._count, bytes(self._first_keys))

    def _append(self, entries: list[bytes]) -> None:
        first_key, last_key = entries[0][:KEY_BYTES], entries[-1][:KEY_BYTES]
        assert self._last_key < first_key <= last_key, (self._name, first_key, last_key)
        self._last_key = last_key
        self._count += len(entries)
        parts: list[bytes] = []
        for at in range(0, len(entries), _BLOCK_ENTRIES):
            block = b"".join(entries[at : at + _BLOCK_ENTRIES])
            self._first_keys += block[:KEY_BYTES]
            parts += (_CRC.pack(crc32c(block)), block)
        try:
            self._file.append([b"".join(parts)])
        except OSError as error:
            raise typed(error, f"writing {self._file.path}") from error


class DueRun:
    """A file that is complete."""

    def __init__(self, file: File, name: str, count: int, first_keys: bytes = b"") -> None:
        """first_keys: of all blocks, if they are at hand: then looking for a key reads one
        block."""
        self._file = file
        self._first_keys = first_keys
        self.name = name
        self.count = count
        # Written, but perhaps not yet durable.
        self.is_flushed = False
        # What was read of it was not what was written.
        self.is_damaged = False
        self._last_key = b""

    @classmethod
    def open(cls, directory: Directory, name: str, count: int) -> DueRun:
        """A file that was flushed. CorruptLog if it does not have so many entries."""
        try:
            file = directory.open(name)
            size = file.size()
        except OSError as error:
            raise typed(error, f"opening {directory.path}/{name}") from error
        blocks = (count + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES
        if size != count * ENTRY_BYTES + blocks * _CRC.size:
            raise CorruptLog(f"{file.path} has {size} bytes, which are not {count} entries.")
        run = cls(file, name, count)
        run.is_flushed = True
        return run

    @property
    def block_count(self) -> int:
        return (self.count + _BLOCK_ENTRIES - 1) // _BLOCK_ENTRIES

    def is_spent(self, key: bytes) -> bool:
        """Whether no entry has a larger key."""
        if not self._last_key and self.count:
            self._last_key = self.block(self.block_count - 1)[-ENTRY_BYTES:][:KEY_BYTES]
        return self._last_key <= key

    def flush(self) -> None:
        """May be called by another thread."""
        self._file.flush()

    def block(self, number: int) -> bytes:
        """The entries of a block, end to end."""
        assert 0 <= number < self.block_count, (self.name, number, self.count)
        entries = min(_BLOCK_ENTRIES, self.count - number * _BLOCK_ENTRIES)
        length = _CRC.size + entries * ENTRY_BYTES
        try:
            data = self._file.read_at(number * _BLOCK_BYTES, length)
        except OSError as error:
            raise typed(error, f"reading {self._file.path}") from error
        block = data[_CRC.size :]
        if len(data) != length or _CRC.unpack_from(data)[0] != crc32c(block):
            self.is_damaged = True
            raise CorruptLog(f"Block {number} of {self._file.path} is damaged.")
        return block

    def seek(self, key: bytes) -> tuple[int, int]:
        """(block, position in it) of the first entry whose key is larger than this one."""
        if self.is_spent(key):
            return self.block_count, 0
        low, high = 0, self.block_count - 1
        while low < high:  # the last block whose first key is not larger, or the first of all
            middle = (low + high + 1) // 2
            if self._first_key(middle) <= key:
                low = middle
            else:
                high = middle - 1
        block = self.block(low)
        for position in range(0, len(block), ENTRY_BYTES):
            if block[position : position + KEY_BYTES] > key:
                return low, position
        return low + 1, 0

    def _first_key(self, number: int) -> bytes:
        if self._first_keys:
            return self._first_keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]
        return self.block(number)[:KEY_BYTES]


class RunCursor:
    """A place in a file, from which on entries are taken."""

    __slots__ = ("_block", "_number", "_position", "_run", "head")

    def __init__(self, run: DueRun, after: bytes) -> None:
        """Before the first entry whose key is larger than `after`."""
        self._run = run
        self._number, self._position = run.seek(after)
        self._block = run.block(self._number) if self._number < run.block_count else b""
        self.head: bytes | None = None
        """The next entry; None at the end."""
        self._take()

    def advance(self) -> None:
        self._position += ENTRY_BYTES
        if self._position >= len(self._block):
            self._number += 1
            self._position = 0
            self._block = (
                self._run.block(self._number) if self._number < self._run.block_count else b""
            )
        self._take()

    def _take(self) -> None:
        position = self._position
        self.head = self._block[position : position + ENTRY_BYTES] or None
