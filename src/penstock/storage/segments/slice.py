"""A stretch of a file, known by its place: whole batches that can be sent without being read.

Not the bytes: they are read only if somebody calls `read`. The invariant: a slice keeps its file
open, so it stays readable after the segment was deleted.
"""

from __future__ import annotations

from typing import Final

from penstock.model.errors import CorruptLog
from penstock.storage.files.files import File, typed


class FileSlice:
    """`length` bytes of a file from `position` on."""

    __slots__ = ("_file", "length", "position")

    def __init__(self, file: File | None, position: int, length: int) -> None:
        self._file = file
        self.position = position
        self.length = length

    def read(self) -> bytes:
        if self._file is None:
            return b""
        try:
            data = self._file.read_at(self.position, self.length)
        except OSError as error:
            raise typed(error, f"reading {self._file.path}") from error
        if len(data) != self.length:
            raise CorruptLog(
                f"{self._file.path} ends at position {self.position + len(data)}, inside a batch: "
                f"it was cut by somebody else; restore the file."
            )
        return data

    def head(self, length_max: int) -> FileSlice:
        """The beginning of it."""
        return FileSlice(self._file, self.position, min(self.length, length_max))

    def fileno(self) -> int:
        return -1 if self._file is None else self._file.fileno()


EMPTY: Final = FileSlice(None, 0, 0)
