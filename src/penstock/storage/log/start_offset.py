"""Where a log begins after records were deleted on request: one offset in `start.journal`.

A log also begins where its first segment does; the larger of the two counts. Not the deletion of
files: retention takes segments that lie wholly before the offset. The invariant: once a deletion
was confirmed, no restart shows the records again.
"""

from __future__ import annotations

import struct
from typing import Final

from penstock.model.errors import CorruptLog, StorageError, StorageFailed
from penstock.storage.files.files import Directory
from penstock.storage.files.journal import read_journal, write_journal

START_JOURNAL: Final = "start.journal"
_OFFSET: Final = struct.Struct(">q")


def read_start_offset(directory: Directory) -> int:
    """The offset before which records were deleted; 0 if none were. StorageError."""
    payload = read_journal(directory, START_JOURNAL)
    if payload is None:
        return 0
    if len(payload) != _OFFSET.size:
        raise CorruptLog(
            f"{directory.path}/{START_JOURNAL} holds {len(payload)} bytes and not an offset: "
            f"restore the file."
        )
    (offset,) = _OFFSET.unpack(payload)
    return int(offset)


def write_start_offset(directory: Directory, offset: int) -> None:
    """Replace the offset; durable when this returns. StorageError."""
    write_journal(directory, START_JOURNAL, _OFFSET.pack(offset))


class StartOffsetJob:
    """Makes a log's new start durable. Run once, on any thread, one at a time for a log."""

    __slots__ = ("_directory", "error", "offset")

    def __init__(self, directory: Directory, offset: int) -> None:
        self.offset = offset
        # Until the job has run to its end nothing of it counts as durable.
        self.error: StorageError | None = StorageFailed("The deletion of records has not ended.")
        self._directory = directory

    def run(self) -> None:
        """Do it. A failure is kept in `error` for `Cutter.finish_start_offset`."""
        try:
            write_start_offset(self._directory, self.offset)
            self.error = None
        except StorageError as error:
            self.error = error
