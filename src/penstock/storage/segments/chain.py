"""The chain of a log's segments: finding batches in it by offset, time and term.

Not when it grows or shrinks: that is its writer's and its cutter's to say (`storage.log`). The
invariant: segments follow one another without a gap of names, oldest first, the last one active;
nothing before `start_offset` is handed out, though its bytes may still be there; and a read is
empty only where nothing is left below its limit. Compaction leaves gaps of offsets, but in each
segment the batch that ends it, so behind a gap there is always another batch of the same segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise

from penstock.model.errors import OffsetOutOfRange
from penstock.records.header import BatchHeader
from penstock.storage.files.files import typed
from penstock.storage.segments.lookup import end_of_term, first_at_time, newest_record
from penstock.storage.segments.scan import SCAN_CHUNK_BYTES
from penstock.storage.segments.segment import Segment, SegmentInfo
from penstock.storage.segments.slice import EMPTY, FileSlice


class Chain:
    """All calls come from the thread that writes the log."""

    __slots__ = ("_firsts", "is_compacted", "name", "segments", "start_offset", "written_offset")

    def __init__(self, name: str, segments: list[Segment], *, is_compacted: bool) -> None:
        for before, after in pairwise(segments):
            assert before.next_offset == after.first_offset, (before.path, after.path)
        self.name = name
        # Changed by the methods below alone: their first offsets are kept beside them.
        self.segments = segments
        self._firsts = [segment.first_offset for segment in segments]
        # Whether offsets may be missing in sealed segments; a consumer has to be told.
        self.is_compacted = is_compacted
        # The first offset that can be read: the first segment's, or one within it from which on
        # records were left when those before were deleted.
        self.start_offset = 0
        # Here the next batch goes.
        self.written_offset = segments[-1].next_offset if segments else 0

    @property
    def first_offset(self) -> int:
        """Where the first segment begins: at or before `start_offset`."""
        return self._firsts[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def segment_count(self) -> int:
        return len(self.segments)

    def infos(self) -> list[SegmentInfo]:
        try:
            return [segment.info() for segment in self.segments]
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def sealed_segments(self) -> list[Segment]:
        """Those that get no more batches, oldest first, without a gap of names between them."""
        return [segment for segment in self.segments if segment.sealed]

    def drop_idle_files(self) -> None:
        """Close the files and forget the indexes of sealed segments not read since last time."""
        for segment in self.segments:
            if segment.sealed and not segment.used and not segment.held:
                segment.release()
            segment.used = False

    def segment_at(self, offset: int) -> Segment:
        """The segment that holds the offset, or would."""
        return self.segments[bisect_right(self._firsts, offset) - 1]

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> FileSlice:
        """Whole batches from the one that holds the offset on, or else from the next one, within
        one segment and before the limit: at most `max_bytes`, but at least one batch if there is
        any."""
        assert limit_offset <= self.written_offset, (limit_offset, self.written_offset)
        if not self.start_offset <= offset <= limit_offset:
            raise out_of_range(offset, self.start_offset, limit_offset)
        if offset == limit_offset:
            return EMPTY
        return self.read_stored(offset, max_bytes, limit_offset)[0]

    def read_stored(self, offset: int, max_bytes: int, limit_offset: int) -> tuple[FileSlice, int]:
        """What `read` gives, and where it ends; also from before `start_offset`, as long as the
        bytes are there. For whoever makes a copy of the log."""
        assert self.first_offset <= offset < limit_offset <= self.written_offset, (
            offset,
            limit_offset,
        )
        segment = self.segments[-1]
        if offset < segment.first_offset:
            segment = self.segment_at(offset)
        try:
            return segment.read(offset, max_bytes, limit_offset)
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """About how many bytes lie between: exact for offsets that were read or flushed up to,
        otherwise off by an index interval and a batch at most; never 0 if there is anything."""
        if offset >= limit_offset:
            return 0
        try:
            offset = max(offset, self.start_offset)
            first = self.segment_at(offset)
            last = self.segment_at(limit_offset)
            size_bytes = last.estimate_position(limit_offset) - first.estimate_position(offset)
            for segment in self.segments[bisect_right(self._firsts, offset) - 1 :]:
                if segment is last:
                    break
                size_bytes += segment.size_bytes
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error
        return size_bytes if size_bytes > 0 else self.read(offset, 1, limit_offset).length

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """The header of every batch from the one that holds the offset on, also of those before
        `start_offset`, as long as they are there: they still tell who produced. Records unread."""
        offset = max(from_offset, self.first_offset)
        try:
            while offset < self.written_offset:
                segment = self.segment_at(offset)
                segment.used = True
                position = segment.position_of(offset)
                for _, header in segment.walk(position, None, SCAN_CHUNK_BYTES):
                    yield header
                    offset = header.next_offset
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after the time, before the limit."""
        try:
            return first_at_time(self.segments, timestamp_ms, self.start_offset, limit_offset)
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def max_timestamp(self, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the newest timestamp before the limit."""
        try:
            return newest_record(self.segments, self.start_offset, limit_offset)
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def end_offset_for_term(self, term: int) -> tuple[int, int]:
        """(term, offset): the largest term of the log that is not after the asked one, or the
        asked one if there is none; and where the next larger one begins, or the log's end."""
        try:
            return end_of_term(self.segments, term, self.written_offset)
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    # --- growing and shrinking -----------------------------------------------------------------

    def append(self, segment: Segment) -> None:
        """It is the active one from now on."""
        if self.segments:
            last = self.segments[-1]
            assert segment.first_offset == last.next_offset, (segment.path, last.path)
        self.segments.append(segment)
        self._firsts.append(segment.first_offset)

    def take_last(self, count: int) -> list[Segment]:
        """Take so many off the end."""
        place = len(self.segments) - count
        assert place >= 0, (count, len(self.segments))
        taken = self.segments[place:]
        del self.segments[place:], self._firsts[place:]
        return taken

    def drop_first(self) -> None:
        """A sealed one: the active one stays."""
        assert self.segments[0].sealed, self.segments[0].path
        assert len(self.segments) > 1, self.segments[0].path
        del self.segments[0], self._firsts[0]

    def replace(self, place: int, count: int, segment: Segment) -> None:
        """Have one stand for so many side by side."""
        assert 0 <= place < place + count < len(self.segments), (place, count, len(self.segments))
        self.segments[place : place + count] = [segment]
        self._firsts[place : place + count] = [segment.first_offset]


def out_of_range(offset: int, start_offset: int, limit_offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"Offset {offset} is out of range: the partition has {start_offset} to {limit_offset}; "
        f"seek to one of them, the beginning or the end."
    )
