"""Disk work that a pool thread does while the event loop goes on: flushing, sealing, unlinking.

A job sees only what it was given: open files, finished indexes and names that nobody else changes
while it runs; it changes nothing in memory. The order in `FlushJob` is the contract: creations are
durable before any rename, a segment's data before its sealed name, and all of it before the job is
done. So a sealed name on disk means a whole segment, without a gap before it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.storage.files.files import Directory, File, remove_if_there
from penstock.storage.segments.index import OFFSET_SUFFIX, TIME_SUFFIX, SegmentIndex, write_index
from penstock.storage.segments.segment import LOG_SUFFIX, Segment, open_stem, sealed_stem

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Seal:
    """A segment that gets no more batches, as it was when the job was made."""

    first_offset: int
    next_offset: int
    size_bytes: int
    file: File
    index: SegmentIndex


class FlushJob:
    """Makes everything written up to `durable_offset` durable. Run once, on any thread."""

    __slots__ = (
        "_active",
        "_directory",
        "_flush_folder",
        "_seals",
        "durable_offset",
        "error",
        "rolls",
        "segments",
    )

    def __init__(
        self,
        directory: Directory,
        *,
        rolled: Sequence[Segment],
        active: File | None,
        durable_offset: int,
        rolls: int,
        flush_folder: bool,
    ) -> None:
        for segment in rolled:
            assert not segment.sealed, segment.path
            assert segment.next_offset <= durable_offset, (segment.path, durable_offset)
        self.segments = rolled
        self.durable_offset = durable_offset
        self.rolls = rolls
        # Until the job has run to its end nothing of it counts as durable.
        self.error: OSError | None = OSError("the flush has not ended")
        self._directory = directory
        self._active = active
        self._flush_folder = flush_folder
        self._seals = [
            _Seal(
                segment.first_offset,
                segment.next_offset,
                segment.size_bytes,
                segment.file,
                segment.index,
            )
            for segment in rolled
        ]

    def run(self) -> None:
        """Do it. A failure is kept in `error` for `Writer.finish_flush`: it must not be retried."""
        try:
            if self._flush_folder:
                self._directory.flush()
            for seal in self._seals:
                seal_segment(self._directory, seal)
            if self._seals:
                self._directory.flush()
            if self._active is not None:
                self._active.flush()
            self.error = None
        except OSError as error:
            self.error = error


class RemovalJob:
    """Unlinks the files of a segment that the log has let go of."""

    __slots__ = ("_directory", "_names")

    def __init__(self, directory: Directory, names: Sequence[str]) -> None:
        self._directory = directory
        self._names = names

    def run(self) -> None:
        """First make the names that say "deleted" durable: they tell recovery of a crash in the
        middle that the older segments go as well."""
        try:
            self._directory.flush()
            for name in self._names:
                remove_if_there(self._directory, name)
        except OSError as error:
            # The next recovery removes them.
            logger.warning(
                "%s/%s is not removed yet: %s", self._directory.path, self._names[-1], error
            )


def seal_segment(directory: Directory, segment: _Seal | Segment) -> None:
    """Flush the data, write the index, give the final name. The folder's flush is the caller's.

    An index that cannot be written is reported and left out: the log is complete without it.
    """
    opened = open_stem(segment.first_offset)
    sealed = sealed_stem(segment.first_offset, segment.next_offset)
    segment.file.flush()
    try:
        write_index(directory, sealed, segment.index, segment.size_bytes, flush=True)
        for suffix in (OFFSET_SUFFIX, TIME_SUFFIX):
            remove_if_there(directory, opened + suffix)
    except OSError as error:
        logger.warning("The index of %s/%s was not written: %s", directory.path, sealed, error)
    directory.rename(opened + LOG_SUFFIX, sealed + LOG_SUFFIX)
