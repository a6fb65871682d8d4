"""The log of one partition: batches in offset order, in segments, on disk.

`stage` gives a batch its offset, `write_staged` writes all staged batches at once, a `FlushJob`
makes them durable off the loop, `read` hands out slices of files. Not replication: what a reader
may see is the `limit_offset` it passes. The invariant: offsets rise without a gap from
`start_offset` to `next_offset`; a write happens whole or not at all; after a failed flush nothing
is written ever again, because the kernel may have dropped what it could not write and would report
the next flush as a success.

One writer, on one thread. Jobs run elsewhere, at most one `FlushJob` at a time.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from penstock.model.errors import OffsetOutOfRange, StorageError, StorageFailed
from penstock.records.header import BatchHeader, stamp
from penstock.storage.files import Directory, remove_if_there, typed
from penstock.storage.jobs import FlushJob, RemovalJob
from penstock.storage.lookup import first_at_time
from penstock.storage.recovery import DELETED_SUFFIX, CleanEnd, recover
from penstock.storage.scan import SCAN_CHUNK_BYTES
from penstock.storage.segment import (
    LOG_SUFFIX,
    SPAN_MAX,
    Mark,
    Segment,
    SegmentInfo,
    Staged,
    sealed_stem,
)
from penstock.storage.slice import EMPTY, FileSlice

__all__ = ["CleanEnd", "FlushJob", "Log", "LogConfig", "RemovalJob"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What of a topic's settings concerns its files; see `model.topic_config`."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int


class Log:
    """A partition's log. `config` may be replaced at any time; it holds for what comes."""

    __slots__ = (
        "_begun_ms",
        "_directory",
        "_durable_offset",
        "_firsts",
        "_job",
        "_rolls_durable",
        "_segments",
        "_staged",
        "config",
        "failure",
        "name",
        "next_offset",
        "rolls",
        "written_offset",
    )

    def __init__(self, directory: Directory, config: LogConfig, segments: list[Segment]) -> None:
        """Use `open`."""
        self.config = config
        self.name = directory.path
        self._directory = directory
        self._segments = segments
        self._firsts = [segment.first_offset for segment in segments]
        self._staged: list[Staged] = []
        self._job: FlushJob | None = None
        self.failure: str | None = None
        # Segments begun since the log was opened, and those of them whose name is durable.
        self.rolls = 0
        # The name of the file that was found may not be durable either: a killed process leaves
        # names that the disk does not have yet.
        self._rolls_durable = -1
        # When the active segment got its first batch; None until somebody asks.
        self._begun_ms: int | None = None
        end = segments[-1].next_offset if segments else 0
        self.next_offset = end
        self.written_offset = end
        self._durable_offset = end
        if not segments or segments[-1].sealed:
            self._start_segment(end)

    @classmethod
    def open(
        cls, directory: Directory, config: LogConfig, *, clean_end: CleanEnd | None = None
    ) -> Self:
        """The log in the folder, recovered; all it holds is durable.

        CorruptLog, with no data changed, if some that may have been acknowledged is damaged.
        """
        try:
            segments = recover(directory, config.index_interval_bytes, clean_end)
            return cls(directory, config, segments)
        except OSError as error:
            raise typed(error, f"opening {directory.path}") from error

    @property
    def start_offset(self) -> int:
        return self._firsts[0]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def failed(self) -> bool:
        """Whether the log is read-only until the broker is restarted."""
        return self.failure is not None

    def segments(self) -> list[SegmentInfo]:
        try:
            return [segment.info() for segment in self._segments]
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    # --- writing -------------------------------------------------------------------------------

    def stage(self, header: BatchHeader, batch: memoryview, term: int) -> int:
        """Give the batch its offset and term, in place, and keep the view until `write_staged`.

        `header` is the batch's own, checked; its offset and term are not looked at.
        """
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert len(batch) == header.length, (len(batch), header.length)
        base_offset = self.next_offset
        next_offset = base_offset + header.last_offset_delta + 1
        stamp(batch, base_offset, term)
        self._staged.append((batch, base_offset, next_offset, header.max_timestamp_ms, term))
        self.next_offset = next_offset
        return base_offset

    def write_staged(self, now_ms: int) -> None:
        """Write every staged batch, or none: DiskFull or StorageFailed undoes all of them."""
        batches = self._staged
        if not batches:
            return
        self._staged = []
        segments_before = len(self._segments)
        segment = self._segments[-1]
        mark = None
        try:
            mark = segment.mark()
            if self.is_roll_due(now_ms):
                segment = self._start_segment(batches[0][1])
            segment_bytes = self.config.segment_bytes
            interval_bytes = self.config.index_interval_bytes
            run: list[Staged] = []
            size_bytes = segment.size_bytes
            for batch in batches:
                grown_bytes = size_bytes + len(batch[0])
                if size_bytes and (
                    grown_bytes > segment_bytes or batch[2] - segment.first_offset > SPAN_MAX
                ):
                    if run:
                        segment.append(run, interval_bytes)
                        run = []
                    segment = self._start_segment(batch[1])
                    grown_bytes = len(batch[0])
                run.append(batch)
                size_bytes = grown_bytes
            segment.append(run, interval_bytes)
        except (OSError, StorageError) as error:
            self._undo(segments_before, mark)
            if isinstance(error, OSError):
                raise typed(error, f"writing to {self.name}") from error
            raise
        if self._begun_ms is None:
            self._begun_ms = now_ms
        self.written_offset = self.next_offset

    def is_roll_due(self, now_ms: int) -> bool:
        """Whether the active segment is old enough to be sealed (`segment_ms`)."""
        active = self._segments[-1]
        if active.size_bytes == 0:
            return False
        if self._begun_ms is None:
            # After a restart: its first message says how old it is, as far as it can be believed.
            try:
                _, header = next(active.walk(0, active.first_offset))
            except OSError as error:
                raise typed(error, f"reading {self.name}") from error
            self._begun_ms = min(header.max_timestamp_ms, now_ms)
        return now_ms - self._begun_ms >= self.config.segment_ms

    def roll(self) -> None:
        """Begin a new segment unless the active one is empty; the next flush job seals the old."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert not self._staged, len(self._staged)
        try:
            if self._segments[-1].size_bytes > 0:
                self._start_segment(self.written_offset)
        except OSError as error:
            raise typed(error, f"rolling {self.name}") from error

    def _start_segment(self, first_offset: int) -> Segment:
        segment = Segment(
            self._directory,
            first_offset=first_offset,
            next_offset=first_offset,
            size_bytes=0,
            sealed=False,
            interval_bytes=self.config.index_interval_bytes,
        )
        segment.create()
        self.rolls += 1
        self._segments.append(segment)
        self._firsts.append(first_offset)
        self._begun_ms = None
        return segment

    def _undo(self, segment_count: int, mark: Mark | None) -> None:
        """Set the log back to where it was before a write that failed."""
        self.next_offset = self.written_offset
        doomed = self._segments[segment_count:]
        del self._segments[segment_count:], self._firsts[segment_count:]
        self._begun_ms = None
        try:
            if mark is not None:
                self._segments[-1].restore(mark)
            for segment in doomed:
                self._directory.remove(segment.stem + LOG_SUFFIX)
            if doomed:
                # Or the name could come back after a crash, with offsets given anew since.
                self._directory.flush()
        except OSError as error:
            self.failure = f"{typed(error, f'undoing a write to {self.name}')}"

    # --- making durable ------------------------------------------------------------------------

    def flush_job(self, include_active: bool) -> FlushJob | None:
        """What makes everything written so far durable, or None if it is.

        Without the active segment: only what was rolled, which is sealed by the job.
        """
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert self._job is None, "a flush job is under way"
        segments = self._segments
        active = segments[-1]
        rolled_from = len(segments) - 1
        while rolled_from > 0 and not segments[rolled_from - 1].sealed:
            rolled_from -= 1
        rolled = segments[rolled_from:-1]
        durable_offset = active.first_offset if rolled else self._durable_offset
        flush_active = (
            include_active and active.size_bytes > 0 and self.written_offset > self._durable_offset
        )
        if flush_active:
            durable_offset = self.written_offset
            # The high watermark will stand here, and readers will end here.
            active.remember(durable_offset, active.size_bytes)
        if not rolled and not flush_active:
            return None
        try:
            self._job = FlushJob(
                self._directory,
                rolled=rolled,
                active=active.file if flush_active else None,
                durable_offset=durable_offset,
                rolls=self.rolls,
                flush_folder=self.rolls != self._rolls_durable,
            )
        except OSError as error:
            raise typed(error, f"flushing {self.name}") from error
        return self._job

    def finish_flush(self, job: FlushJob) -> int:
        """Take in what the job did; the offset before which everything is durable."""
        assert job is self._job, "not the job under way"
        self._job = None
        if job.error is not None:
            failure = typed(job.error, f"flushing {self.name}")
            self.failure = f"The partition is read-only since a flush failed. {failure}"
            raise StorageFailed(self.failure) from job.error
        if self.failure is not None:
            raise StorageFailed(self.failure)
        for segment in job.segments:
            segment.seal()
        self._rolls_durable = max(self._rolls_durable, job.rolls)
        self._durable_offset = max(self._durable_offset, job.durable_offset)
        return self._durable_offset

    def close(self) -> CleanEnd | None:
        """Make everything durable and let go of the files.

        What is returned lets the next `open` skip the scan; None after an earlier failure, since
        then only a scan can tell what is on the disk. StorageFailed if it fails now.
        """
        assert not self._staged, len(self._staged)
        clean_end = None
        try:
            if self.failure is None:
                job = self.flush_job(include_active=True)
                if job is not None:
                    job.run()
                    self.finish_flush(job)
                active = self._segments[-1]
                if active.index_loaded:
                    active.write_index()
                clean_end = CleanEnd(
                    first_offset=active.first_offset,
                    size_bytes=active.size_bytes,
                    next_offset=active.next_offset,
                )
        finally:
            self.discard()
        return clean_end

    # --- removing ------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Drop everything from the offset on, durably; it must be where a batch begins."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert self._job is None, "a flush job is under way"
        if not self.start_offset <= offset <= self.written_offset:
            raise _out_of_range(offset, self.start_offset, self.written_offset)
        self._staged = []
        try:
            segment = _segment_at(self._segments, self._firsts, offset)
            if offset < segment.next_offset:
                _, header = next(segment.walk(segment.position_of(offset), None))
                assert header.base_offset == offset, (header.base_offset, offset)
            # The newest first and one by one, so that a crash in between leaves no gap.
            while self._segments[-1].first_offset > offset:
                for name in self._segments[-1].file_names():
                    remove_if_there(self._directory, name)
                self._directory.flush()
                self._rolls_durable = self.rolls
                del self._segments[-1], self._firsts[-1]
            if segment.sealed:
                segment.reopen()
            segment.cut(offset)
        except OSError as error:
            self.failure = f"{typed(error, f'truncating {self.name}')}"
            raise StorageFailed(self.failure) from error
        self._begun_ms = None
        self.next_offset = self.written_offset = offset
        self._durable_offset = min(self._durable_offset, offset)

    def abandon(self, offset: int) -> None:
        """After a failure, with no job under way: take out what was written from the offset on, as
        far as the disk lets us. Nobody was told that it is durable, and a restart could take it
        for that. A segment that a job had sealed stays: it was flushed before it got its name."""
        assert self.failure is not None, "abandoned without a failure"
        assert self._job is None, "a flush job is under way"
        self._staged = []
        segments = self._segments
        try:
            while len(segments) > 1 and segments[-1].first_offset >= offset:
                if _has_sealed_name(segments[-1]):
                    break
                for name in segments[-1].file_names():
                    remove_if_there(self._directory, name)
                del segments[-1], self._firsts[-1]
            last = segments[-1]
            if last.first_offset <= offset < last.next_offset and not _has_sealed_name(last):
                last.cut(offset)
        except (OSError, StorageError) as error:
            logger.warning("%s could not be cut back to offset %d: %s", self.name, offset, error)
        self.next_offset = self.written_offset = segments[-1].next_offset

    def discard(self) -> None:
        """Let go of the files as they are; the log is closed."""
        self._staged = []
        for segment in self._segments:
            segment.release()
        self.failure = self.failure or f"The log {self.name} is closed."

    def delete_before(self, offset: int) -> list[RemovalJob]:
        """Let go of the sealed segments that end before the offset; the jobs unlink the files."""
        jobs = []
        segments = self._segments
        try:
            while segments[0].sealed and segments[0].next_offset <= offset:
                log_name, *index_names = segments[0].file_names()
                deleted_name = log_name + DELETED_SUFFIX
                self._directory.rename(log_name, deleted_name)
                jobs.append(RemovalJob(self._directory, [*index_names, deleted_name]))
                del segments[0], self._firsts[0]
        except OSError as error:
            # What is renamed already has to be unlinked; the rest is asked for again.
            if not jobs:
                raise typed(error, f"deleting from {self.name}") from error
        return jobs

    def drop_idle_files(self) -> None:
        """Close the files and forget the indexes of sealed segments not read since last time."""
        for segment in self._segments:
            if segment.sealed and not segment.used:
                segment.release()
            segment.used = False

    # --- reading -------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit_offset: int) -> FileSlice:
        """Whole batches from the one that holds the offset on, within one segment and before the
        limit: at most `max_bytes`, but at least one batch if there is any."""
        assert limit_offset <= self.written_offset, (limit_offset, self.written_offset)
        if not self._firsts[0] <= offset <= limit_offset:
            raise _out_of_range(offset, self.start_offset, limit_offset)
        if offset == limit_offset:
            return EMPTY
        try:
            return _segment_at(self._segments, self._firsts, offset).read(
                offset, max_bytes, limit_offset
            )
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """About how many bytes lie between: exact for offsets that were read or flushed up to,
        otherwise off by an index interval and a batch at most; never 0 if there is anything."""
        if offset >= limit_offset:
            return 0
        try:
            offset = max(offset, self.start_offset)
            first = _segment_at(self._segments, self._firsts, offset)
            last = _segment_at(self._segments, self._firsts, limit_offset)
            size_bytes = last.estimate_position(limit_offset) - first.estimate_position(offset)
            for segment in self._segments[bisect_right(self._firsts, offset) - 1 :]:
                if segment is last:
                    break
                size_bytes += segment.size_bytes
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error
        return max(size_bytes, 1)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record at or after the time, before the limit."""
        try:
            return first_at_time(self._segments, timestamp_ms, limit_offset)
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error

    def headers(self, from_offset: int) -> Iterator[BatchHeader]:
        """The header of every batch from the one that holds the offset on. Records unread."""
        offset = max(from_offset, self.start_offset)
        try:
            while offset < self.written_offset:
                segment = _segment_at(self._segments, self._firsts, offset)
                segment.used = True
                position = segment.position_of(offset)
                for _, header in segment.walk(position, None, SCAN_CHUNK_BYTES):
                    yield header
                    offset = header.next_offset
        except OSError as error:
            raise typed(error, f"reading {self.name}") from error


def _out_of_range(offset: int, start_offset: int, limit_offset: int) -> OffsetOutOfRange:
    return OffsetOutOfRange(
        f"Offset {offset} is out of range: the partition has {start_offset} to {limit_offset}; "
        f"seek to one of them, the beginning or the end."
    )


def _segment_at(segments: list[Segment], firsts: list[int], offset: int) -> Segment:
    """The segment that holds the offset, or would."""
    active = segments[-1]
    if offset >= active.first_offset:
        return active
    return segments[bisect_right(firsts, offset) - 1]


def _has_sealed_name(segment: Segment) -> bool:
    """Also if the job that sealed it failed afterwards, and the log does not know."""
    name = sealed_stem(segment.first_offset, segment.next_offset) + LOG_SUFFIX
    return segment.sealed or segment.directory.exists(name)
