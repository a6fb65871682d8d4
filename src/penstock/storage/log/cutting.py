"""Disk work that takes the end off a log, or all of it, while the event loop goes on.

In memory the log is cut already (`storage.log.cutter`), so nobody reads what goes here, and nothing
is written until it is gone. The invariant: segments go the newest first and one by one, each
durably, so that a crash in between leaves no gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.storage.files.files import Directory, remove_if_there
from penstock.storage.segments.chain import Chain
from penstock.storage.segments.segment import LOG_SUFFIX, Segment, sealed_stem


class TruncateJob:
    """Removes segments from the end, and cuts the file of the last that stays. Run once, on any
    thread."""

    __slots__ = (
        "_directory",
        "_doomed",
        "_file",
        "_names",
        "_sealed_names",
        "_size_bytes",
        "error",
        "segment",
    )

    what: Final = "truncating"

    def __init__(
        self,
        directory: Directory,
        doomed: Sequence[Segment],
        segment: Segment,
        sealed_names: Sequence[str],
    ) -> None:
        """segment: it stays, set back in memory. sealed_names: of its files, if it was sealed."""
        # Until the job has run to its end nothing of it counts.
        self.error: OSError | None = OSError("it has not ended")
        self.segment = segment
        self._directory = directory
        self._doomed = [doomed_one.file_names() for doomed_one in reversed(doomed)]
        self._names = segment.file_names()
        self._sealed_names = sealed_names
        self._file = segment.file
        self._size_bytes = segment.size_bytes

    @property
    def has_flushed_folder(self) -> bool:
        return bool(self._doomed or self._sealed_names)

    def run(self) -> None:
        directory = self._directory
        try:
            _remove(directory, self._doomed)
            if self._sealed_names:
                log_name, *index_names = self._sealed_names
                directory.rename(log_name, self._names[0])
                directory.flush()
                for name in index_names:
                    remove_if_there(directory, name)
            self._file.truncate(self._size_bytes)
            self._file.flush()
            # Other batches may bring the log back to the size that index files of it are for.
            for name in self._names[1:]:
                remove_if_there(directory, name)
            self.error = None
        except OSError as error:
            self.error = error


class ResetJob:
    """Removes all segments, and begins the one that the log goes on with. Run once, on any
    thread."""

    __slots__ = ("_directory", "_doomed", "_name", "error", "segment")

    what: Final = "emptying"
    has_flushed_folder: Final = True

    def __init__(self, directory: Directory, doomed: Sequence[Segment], segment: Segment) -> None:
        # Until the job has run to its end nothing of it counts.
        self.error: OSError | None = OSError("it has not ended")
        self.segment = segment
        self._directory = directory
        self._doomed = [doomed_one.file_names() for doomed_one in reversed(doomed)]
        self._name = segment.stem + LOG_SUFFIX

    def run(self) -> None:
        try:
            _remove(self._directory, self._doomed)
            self._directory.open(self._name, create=True).close()
            self._directory.flush()
            self.error = None
        except OSError as error:
            self.error = error


def take_off_end(directory: Directory, chain: Chain, offset: int) -> None:
    """At once, from a log that has failed, as far as it goes. A segment that has its final name
    stays: it was flushed before."""
    segments = chain.segments
    while len(segments) > 1 and segments[-1].first_offset >= offset:
        if _has_sealed_name(segments[-1]):
            break
        # Durably, before the one in front of it goes: a crash must not bring back this one alone.
        _remove(directory, [segments[-1].file_names()])
        chain.take_last(1)
    last = segments[-1]
    if last.first_offset <= offset < last.next_offset and not _has_sealed_name(last):
        last.cut(offset)


def _has_sealed_name(segment: Segment) -> bool:
    """Also if the job that sealed it failed afterwards, and the log does not know."""
    name = sealed_stem(segment.first_offset, segment.next_offset) + LOG_SUFFIX
    return segment.sealed or segment.directory.exists(name)


def _remove(directory: Directory, segments: Sequence[Sequence[str]]) -> None:
    for names in segments:
        for name in names:
            remove_if_there(directory, name)
        directory.flush()
