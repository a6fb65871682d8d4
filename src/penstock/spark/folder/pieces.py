"""The batches of one log file, checked, in pieces of bounded size. The file is only read.

Not the order of files, nor what is done about damage: `log` has both. The invariant: what is
handed out are whole batches with the right checksums whose offsets follow one another, and memory
stays within one window, or one batch where that is larger.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from penstock.model.errors import BatchError, InvalidBatch
from penstock.model.limits import BATCH_BYTES_MAX, MIB
from penstock.records.header import HEADER_BYTES, BatchHeader, check_batch, read_header
from penstock.storage.files.files import File
from penstock.storage.files.os_files import OsDirectory, OsFile
from penstock.storage.segments.scan import Damage, find_batch, is_tear

# Read at once: some 40,000 rows of 100 bytes. Larger ones gain nothing and fall out of the caches.
_WINDOW_BYTES: Final = 4 * MIB


class Piece(NamedTuple):
    """Whole batches with the right checksums, end to end."""

    payload: memoryview
    position: int
    """Where in the file they begin."""
    next_offset: int
    max_timestamp_ms: int
    """As the batches say it."""
    from_offset: int = 0
    """What is before it is not wanted."""


class ReadOnlyFile(OsFile):
    """A file that the system would not let us change."""

    __slots__ = ()

    def __init__(self, path: str) -> None:
        self._descriptor = -1
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)


class ReadOnlyDirectory(OsDirectory):
    """A folder whose files are opened for reading alone."""

    __slots__ = ()

    def open(self, name: str, *, create: bool = False) -> OsFile:
        if create:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return ReadOnlyFile(f"{self.path}/{name}")


class Pieces:
    """The batches of a file from a boundary on; `damage` says why they ended early, if they did."""

    def __init__(
        self, file: File, position: int, offset: int, limit_offset: int, *, gaps: bool
    ) -> None:
        self._file = file
        self._end = file.size()
        self._gaps = gaps
        self._limit_offset = limit_offset
        self.position = position
        self.next_offset = offset
        self.damage: Damage | None = None

    def __iter__(self) -> Iterator[Piece]:
        window_bytes = _WINDOW_BYTES
        while self.damage is None and not self._is_done():
            wanted = min(window_bytes, self._end - self.position)
            window = memoryview(self._file.read_at(self.position, wanted))
            if len(window) < wanted:
                self._damaged(f"the file ends, and had {self._end} bytes before")
                return
            before = self.position
            yield from self._take(window)
            if self.position == before and self.damage is None:
                # Its first batch is larger: the next look takes exactly that one.
                window_bytes = read_header(window).length
            else:
                window_bytes = _WINDOW_BYTES

    def resume(self) -> tuple[int, int] | None:
        """(position, offset) of the first whole batch behind the damage, to go on with."""
        assert self.damage is not None
        damage, self.damage = self.damage, None
        position: int | None = damage.position
        if not damage.whole or self._header_offset(damage.position) < damage.next_offset:
            position = find_batch(self._file, damage, self._end)
        if position is None:
            return None
        self.position, self.next_offset = position, self._header_offset(position)
        return self.position, self.next_offset

    def is_torn(self) -> bool:
        """Whether the damage is what a crash leaves at the end of an unsealed file."""
        return self.damage is not None and is_tear(self._file, self.damage, self._end)

    def _is_done(self) -> bool:
        return self.position >= self._end or self.next_offset >= self._limit_offset

    def _header_offset(self, position: int) -> int:
        return read_header(self._file.read_at(position, HEADER_BYTES)).base_offset

    def _take(self, window: memoryview) -> Iterator[Piece]:
        """The window's whole batches; what is cut off by its end is for the next window."""
        origin = self.position
        at = 0
        newest_ms = -1
        while at < len(window) and not self._is_done():
            header = self._check(window, at)
            if header is None:
                break
            at += header.length
            newest_ms = max(newest_ms, header.max_timestamp_ms)
            self.position = origin + at
            self.next_offset = header.next_offset
        if at > 0:
            yield Piece(window[:at], origin, self.next_offset, newest_ms)

    def _check(self, window: memoryview, at: int) -> BatchHeader | None:
        """The header of the batch there; None if it is not one, or not all in the window."""
        left = self._end - self.position
        try:
            header = read_header(window, at)
            if header.length > min(left, BATCH_BYTES_MAX):
                self._damaged(f"a batch of {header.length} bytes has no room there")
                return None
            if at + header.length > len(window):
                return None
            check_batch(window, at)
        except InvalidBatch:
            if len(window) - at < min(HEADER_BYTES, left):
                return None
            self._damaged("there is no batch")
            return None
        except BatchError:
            self._damaged("the checksum is wrong")
            return None
        offset = header.base_offset
        if offset < self.next_offset or (offset > self.next_offset and not self._gaps):
            reason = f"the batch has offset {offset}, not {self.next_offset}"
            self._damaged(reason, whole=True)
            return None
        return header

    def _damaged(self, reason: str, *, whole: bool = False) -> None:
        self.damage = Damage(self.position, self.next_offset, reason, whole)
