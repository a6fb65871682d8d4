"""The log of one partition: batches in offset order, in segments, on disk.

A **chain** of segments that is read and looked up in (`storage.segments.chain`), a **writer** that
stages batches, writes all that is staged at once, and has jobs make it durable
(`storage.log.writer`), and a **cutter** that takes off the end, deletes from the beginning, and
replaces what was compacted (`storage.log.cutter`). This is what holds them together: it opens and
closes them, and answers readers. Not replication: what a reader may see is the `limit_offset` it
passes. The invariant: nothing is written or cut here, and none of the parts knows the whole.

All calls come from one thread; jobs run elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from penstock.records.header import BatchHeader
from penstock.storage.files.files import Directory, typed
from penstock.storage.log.compacted import is_compacted
from penstock.storage.log.cutter import Cutter
from penstock.storage.log.removals import RemovalHistory
from penstock.storage.log.start_offset import StartOffsetJob, read_start_offset, write_start_offset
from penstock.storage.log.writer import LogConfig, Writer
from penstock.storage.segments.chain import Chain
from penstock.storage.segments.jobs import FlushJob, RemovalJob
from penstock.storage.segments.recovery import CleanEnd, Cut, recover
from penstock.storage.segments.segment import Segment, SegmentInfo

__all__ = ["CleanEnd", "FlushJob", "Log", "LogConfig", "RemovalJob", "StartOffsetJob"]


class Log:
    """A partition's log."""

    __slots__ = ("_cut", "chain", "cutter", "read", "read_stored", "removals", "writer")

    def __init__(self, directory: Directory, config: LogConfig, segments: list[Segment]) -> None:
        """Use `open`."""
        chain = Chain(directory.path, segments, is_compacted=is_compacted(directory))
        for segment in segments:
            segment.compacted = chain.is_compacted and segment.sealed
        # Why offsets are gone; and what recovery has just cut, until somebody says when that was.
        self.removals = RemovalHistory(directory)
        self._cut: Cut | None = None
        self.chain = chain
        self.writer = Writer(directory, config, chain)
        self.cutter = Cutter(directory, chain, self.writer)
        if not segments or segments[-1].sealed:
            self.writer.start_segment(chain.written_offset)
        chain.start_offset = chain.first_offset
        # Of every fetch: without a call in between.
        self.read = chain.read
        self.read_stored = chain.read_stored

    @classmethod
    def open(
        cls, directory: Directory, config: LogConfig, *, clean_end: CleanEnd | None = None
    ) -> Self:
        """The log in the folder, recovered; all it holds is durable.

        CorruptLog, with no data changed, if some that may have been acknowledged is damaged.
        """
        try:
            segments, cut = recover(directory, config.index_interval_bytes, clean_end)
            log = cls(directory, config, segments)
            log._cut = cut
            start_offset = read_start_offset(directory)
            if start_offset > log.next_offset:
                # Not all that had been written was durable. It must not hide what comes instead;
                # nor may what comes be taken for what was deleted, so that goes first.
                log.removals.clip(log.next_offset)
                log._cut = Cut(
                    first_offset=log.next_offset,
                    end_offset=max(start_offset, cut.end_offset if cut else 0),
                    detail="a crash lost the end of the log, which was not durable",
                )
                start_offset = log.next_offset
                write_start_offset(directory, start_offset)
            elif start_offset and clean_end is None:
                # A killed process may have left a name that the disk does not have yet.
                directory.flush()
            log.chain.start_offset = max(start_offset, log.first_offset)
            return log
        except OSError as error:
            raise typed(error, f"opening {directory.path}") from error

    def explain_cut(self, now_ms: int) -> None:
        """After `open`: remember durably what recovery had to cut from the end."""
        if self._cut is not None:
            self.removals.keep(self._cut.removal(now_ms))
            self._cut = None

    def close(self) -> CleanEnd | None:
        """Make everything durable and let go of the files.

        What is returned lets the next `open` skip the scan; None after an earlier failure, since
        then only a scan can tell what is on the disk. StorageFailed if it fails now.
        """
        try:
            return self.writer.finish()
        finally:
            self.discard()

    def discard(self) -> None:
        """Let go of the files as they are; the log is closed."""
        for segment in self.chain.segments:
            segment.release()
        self.writer.stop(f"The log {self.name} is closed.")

    # --- what there is -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.chain.name

    @property
    def first_offset(self) -> int:
        """Where the first segment begins: at or before `start_offset`."""
        return self.chain.first_offset

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self.chain.start_offset

    @property
    def written_offset(self) -> int:
        """The one after the last that is in the files."""
        return self.chain.written_offset

    @property
    def next_offset(self) -> int:
        """The one after the last that is staged."""
        return self.writer.next_offset

    @property
    def size_bytes(self) -> int:
        return self.chain.size_bytes

    @property
    def segment_count(self) -> int:
        return self.chain.segment_count

    @property
    def is_compacted(self) -> bool:
        """Whether offsets may be missing in sealed segments; a consumer has to be told."""
        return self.chain.is_compacted

    @property
    def failure(self) -> str | None:
        """Why nothing is written until the broker is restarted."""
        return self.writer.failure

    @property
    def failed(self) -> bool:
        return self.writer.failure is not None

    def segments(self) -> list[SegmentInfo]:
        return self.chain.infos()

    def sealed_segments(self) -> list[Segment]:
        return self.chain.sealed_segments()

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        return self.chain.bytes_between(offset, limit_offset)

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        return self.chain.headers(from_offset)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> tuple[int, int] | None:
        return self.chain.offset_for_time(timestamp_ms, limit_offset)

    def max_timestamp(self, limit_offset: int) -> tuple[int, int] | None:
        return self.chain.max_timestamp(limit_offset)

    def end_offset_for_term(self, term: int) -> tuple[int, int]:
        return self.chain.end_offset_for_term(term)
