"""One segment: a file of batches end to end, its sparse index, and finding places in it.

Not the order of segments, nor what is acknowledged: that is the log's. The invariant: `size_bytes`
and `next_offset` always describe whole batches, and every position handed out is the boundary of a
batch. Offsets follow one another without a gap, unless the segment is `compacted`: then some may be
in no batch, and whoever looks for one of those is given the next. The last offset is in a batch in
any case, so that a missing end shows.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.records.header import BatchHeader
from penstock.storage.files.files import Directory, File, remove_if_there
from penstock.storage.segments.index import (
    OFFSET_SUFFIX,
    TIME_SUFFIX,
    IndexDamage,
    SegmentIndex,
    read_index,
    read_max_timestamp,
    write_index,
)
from penstock.storage.segments.scan import SCAN_CHUNK_BYTES, corrupt, walk
from penstock.storage.segments.slice import EMPTY, FileSlice

logger = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
OPEN_MARK: Final = ".open"
# An offset is stored relative to its segment's first in 32 bits, and so is a position.
SPAN_MAX: Final = 2**32 - 1
# Boundaries remembered per segment: one for each consumer that reads along, and for each flush.
_BOUNDARIES_MAX: Final = 32

# view, base offset, next offset, max timestamp, term. A plain tuple: one per produced batch.
Staged = tuple[memoryview, int, int, int, int]
# size, next offset, max timestamp: where a segment is set back to when a write fails.
Mark = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentInfo:
    """What retention and people want to know of a segment."""

    first_offset: int
    last_offset: int
    """`first_offset - 1` if it is empty."""
    size_bytes: int
    max_timestamp_ms: int
    sealed: bool


def open_stem(first_offset: int) -> str:
    return f"{first_offset:020}{OPEN_MARK}"


def sealed_stem(first_offset: int, next_offset: int) -> str:
    return f"{first_offset:020}-{next_offset - 1:020}"


class Segment:
    """A segment of a partition's folder. Its file and index are opened when they are needed."""

    __slots__ = (
        "_boundaries",
        "_file",
        "_index",
        "_max_timestamp_ms",
        "compacted",
        "directory",
        "first_offset",
        "held",
        "interval_bytes",
        "next_offset",
        "sealed",
        "size_bytes",
        "used",
    )

    def __init__(
        self,
        directory: Directory,
        *,
        first_offset: int,
        next_offset: int,
        size_bytes: int,
        sealed: bool,
        interval_bytes: int,
        index: SegmentIndex | None = None,
        compacted: bool = False,
    ) -> None:
        self.directory = directory
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.size_bytes = size_bytes
        self.sealed = sealed
        self.compacted = compacted
        self.used = False
        # While its files are being replaced it is read by what is open, and must not be let go.
        self.held = False
        self.interval_bytes = interval_bytes
        self._file: File | None = None
        self._index = index
        self._max_timestamp_ms: int | None = None
        # offset → position of batches that a read or a flush ended before
        self._boundaries: dict[int, int] = {}

    @property
    def stem(self) -> str:
        """The name without its ending."""
        if self.sealed:
            return sealed_stem(self.first_offset, self.next_offset)
        return open_stem(self.first_offset)

    @property
    def path(self) -> str:
        return f"{self.directory.path}/{self.stem}{LOG_SUFFIX}"

    @property
    def file(self) -> File:
        if self._file is None:
            self._file = self.directory.open(self.stem + LOG_SUFFIX)
        return self._file

    @property
    def index(self) -> SegmentIndex:
        """The index: from its files, or made from the log where they are missing or damaged."""
        if self._index is None:
            self._index = load_index(self)
        return self._index

    @property
    def index_loaded(self) -> bool:
        return self._index is not None

    @property
    def max_timestamp_ms(self) -> int:
        if self._index is not None:
            return self._index.max_timestamp_ms
        if self._max_timestamp_ms is None:
            try:
                self._max_timestamp_ms = read_max_timestamp(
                    self.directory, self.stem, self.size_bytes
                )
            except IndexDamage:
                self._max_timestamp_ms = self.index.max_timestamp_ms
        return self._max_timestamp_ms

    def info(self) -> SegmentInfo:
        return SegmentInfo(
            first_offset=self.first_offset,
            last_offset=self.next_offset - 1,
            size_bytes=self.size_bytes,
            max_timestamp_ms=self.max_timestamp_ms,
            sealed=self.sealed,
        )

    # --- writing -------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the empty file. Its name is durable after the folder's flush."""
        self._file = self.directory.open(self.stem + LOG_SUFFIX, create=True)
        self._index = SegmentIndex()

    def mark(self) -> Mark:
        return self.size_bytes, self.next_offset, self.max_timestamp_ms

    def append(self, batches: Sequence[Staged], interval_bytes: int) -> None:
        """Write the batches by one call. After an OSError `restore` the mark taken before."""
        assert batches[0][1] == self.next_offset, (batches[0][1], self.next_offset)
        index = self.index
        self.file.append([batch[0] for batch in batches])
        position = self.size_bytes
        first_offset = self.first_offset
        positions = index.positions
        due_position = (positions[-1] if positions else 0) + interval_bytes
        for view, base_offset, _, max_timestamp_ms, term in batches:
            # What `SegmentIndex.add` would do, without the call for the many that change nothing.
            if (
                position >= due_position
                or max_timestamp_ms > index.max_timestamp_ms
                or term != index.last_term
            ):
                offset = base_offset - first_offset
                index.add(offset, position, max_timestamp_ms, term, interval_bytes)
                due_position = (positions[-1] if positions else 0) + interval_bytes
            position += len(view)
        self.size_bytes = position
        self.next_offset = batches[-1][2]
        assert self.next_offset - first_offset <= SPAN_MAX, (first_offset, self.next_offset)

    def restore(self, mark: Mark, *, in_file: bool = True) -> None:
        """Undo every append since the mark: first in memory, so that reads go on if the file
        cannot be set back."""
        assert mark[0] <= self.size_bytes, (mark, self.size_bytes)
        assert self.first_offset <= mark[1] <= self.next_offset, (mark, self.next_offset)
        self.size_bytes, self.next_offset, max_timestamp_ms = mark
        if self._index is not None:
            self._index.cut(self.next_offset - self.first_offset, self.size_bytes, max_timestamp_ms)
        if in_file:
            self.file.truncate(self.size_bytes)

    def set_back(self, offset: int) -> None:
        """Forget the batches from the offset on, which must be where one begins. The file still has
        them, until it is cut to `size_bytes`."""
        position = self.position_of(offset) if offset < self.next_offset else self.size_bytes
        entry_offset, entry_position = self.index.floor_position(max(position - 1, 0))
        newest_ms = self.index.newest_before(entry_position)
        for _, header in walk(
            self.file, entry_position, position, self.first_offset + entry_offset
        ):
            newest_ms = max(newest_ms, header.max_timestamp_ms)
        self.restore((position, offset, newest_ms), in_file=False)
        self._boundaries.clear()

    def cut(self, offset: int) -> None:
        """Drop the batches from the offset on, durably; it must be where a batch begins."""
        self.set_back(offset)
        self.file.truncate(self.size_bytes)
        self.file.flush()
        # Other batches may bring the log back to the size that index files of it are for.
        for name in self.file_names()[1:]:
            remove_if_there(self.directory, name)

    def file_names(self) -> list[str]:
        return [self.stem + suffix for suffix in (LOG_SUFFIX, OFFSET_SUFFIX, TIME_SUFFIX)]

    def seal(self) -> None:
        """The file has its final name now, and is opened by that from here on."""
        assert not self.sealed, self.path
        assert self.next_offset > self.first_offset, self.path
        self.sealed = True
        self._file = None

    def hold(self) -> None:
        """Open the file and the index, and keep them: their names are about to change."""
        self._file = self.file
        self._index = self.index
        self.held = True

    def release(self) -> None:
        """Forget the file and the index; slices handed out keep the file for themselves."""
        if self._index is not None:
            self._max_timestamp_ms = self._index.max_timestamp_ms
        self._file = None
        self._index = None
        self._boundaries = {}

    # --- reading -------------------------------------------------------------------------------

    def remember(self, offset: int, position: int) -> None:
        """Note the boundary of a batch that is likely to be asked for soon."""
        boundaries = self._boundaries
        if offset not in boundaries:
            if len(boundaries) >= _BOUNDARIES_MAX:
                del boundaries[next(iter(boundaries))]
            boundaries[offset] = position

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> tuple[FileSlice, int]:
        """Whole batches from the one that holds the offset on, or from the next one if none does:
        at least one if there is one before the limit. And the offset after the last of them."""
        self.used = True
        boundaries = self._boundaries
        start = boundaries.get(offset)
        if start is None:
            start = self.position_of(offset)
        if limit_offset >= self.next_offset:
            end, end_offset = self.size_bytes, self.next_offset
        else:
            end, end_offset = boundaries.get(limit_offset, -1), limit_offset
            if end < 0:
                end, end_offset = self._end_before(start, offset, limit_offset)
        if end - start > max_bytes:
            end, end_offset = self._end_within(start, offset, max_bytes, end)
        if end <= start:
            return EMPTY, offset
        self.remember(end_offset, end)
        return FileSlice(self.file, start, end - start), end_offset

    def position_of(self, offset: int) -> int:
        """Where the batch that holds the offset begins, or the next one if none does."""
        known = self._boundaries.get(offset)
        if known is not None:
            return known
        if offset == self.first_offset:
            return 0
        entry_offset, start = self.index.floor(offset - self.first_offset)
        for position, header in self.walk(start, self.first_offset + entry_offset):
            if header.base_offset + header.last_offset_delta >= offset:
                return position
        raise corrupt(self.path, self.size_bytes, f"it ends before offset {offset}")

    def estimate_position(self, offset: int) -> int:
        """Where the offset is, exactly if it was read or flushed up to, else at most one index
        interval and one batch too low."""
        if offset >= self.next_offset:
            return self.size_bytes
        known = self._boundaries.get(offset)
        return self.index.floor(offset - self.first_offset)[1] if known is None else known

    def walk(
        self, position: int, offset: int | None, chunk_bytes: int = 0
    ) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from the boundary on; see `scan.walk`."""
        return walk(
            self.file,
            position,
            self.size_bytes,
            offset,
            chunk_bytes or self.interval_bytes,
            gaps=self.compacted,
        )

    def _end_before(self, start: int, offset: int, limit_offset: int) -> tuple[int, int]:
        """A boundary at or before the limit, and beyond the start if there is one."""
        entry_offset, position = self.index.floor(limit_offset - self.first_offset)
        if position > start:
            return position, self.first_offset + entry_offset
        end, end_offset = start, offset
        for position, header in self.walk(start, None):
            if header.next_offset > limit_offset:
                break
            end, end_offset = position + header.length, header.next_offset
        assert end_offset <= limit_offset, (self.path, offset, end_offset, limit_offset)
        return end, end_offset

    def _end_within(self, start: int, offset: int, max_bytes: int, limit: int) -> tuple[int, int]:
        """A boundary at most `max_bytes` behind the start, or the end of its first batch."""
        entry_offset, position = self.index.floor_position(min(start + max_bytes, limit))
        if position > start:
            return position, self.first_offset + entry_offset
        end, end_offset = start, offset
        for position, header in self.walk(start, None):
            if end > start and position + header.length > min(start + max_bytes, limit):
                break
            end, end_offset = position + header.length, header.next_offset
        return end, end_offset


def load_index(segment: Segment) -> SegmentIndex:
    """The index from its files, or from the log; held against the name either way."""
    try:
        index = read_index(segment.directory, segment.stem, segment.size_bytes)
        _check_end(segment, index)
    except IndexDamage as damage:
        logger.warning("%s The index is made again from the log.", damage)
        index = rebuild_index(segment)
        _check_end(segment, index)
        keep_index(segment, index)
    return index


def rebuild_index(segment: Segment) -> SegmentIndex:
    """The index as the headers in the log have it."""
    index = SegmentIndex()
    for position, header in segment.walk(0, segment.first_offset, SCAN_CHUNK_BYTES):
        offset = header.base_offset - segment.first_offset
        index.add(offset, position, header.max_timestamp_ms, header.term, segment.interval_bytes)
    return index


def keep_index(segment: Segment, index: SegmentIndex) -> None:
    """Write the index to its files. Failing is a warning: it can be made again, and so it can if a
    crash loses it, which is why it is not flushed."""
    try:
        write_index(segment.directory, segment.stem, index, segment.size_bytes, flush=False)
    except OSError as error:
        logger.warning("The index of %s was not written: %s", segment.path, error)


def _check_end(segment: Segment, index: SegmentIndex) -> None:
    """Hold the last batch against the segment's end: the walk is one index interval long."""
    offset, position = index.floor_position(segment.size_bytes)
    next_offset = segment.first_offset + offset
    for _, header in segment.walk(position, next_offset):
        next_offset = header.next_offset
    if next_offset != segment.next_offset:
        reason = f"it ends before offset {next_offset}, not {segment.next_offset}"
        raise corrupt(segment.path, segment.size_bytes, reason)
