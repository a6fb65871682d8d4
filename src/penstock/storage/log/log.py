"""The log of one partition: batches in offset order, in segments, on disk.

`stage` gives a batch its offset, `write_staged` writes all staged batches at once, a `FlushJob`
makes them durable off the loop, `read` (in `storage.segments.chain`) hands out slices of files.
Not replication: what a reader may see is the `limit_offset` it passes. The invariant: offsets rise
without a gap as they are written, and only compaction takes some out again; a write happens whole
or not at all; after a failed flush nothing is written ever again, because the kernel may have
dropped what it could not write and would report the next flush as a success.

One writer, on one thread. Jobs run elsewhere, at most one `FlushJob` at a time.
"""

from __future__ import annotations

import logging
from typing import Self

from penstock.model.errors import StorageError, StorageFailed
from penstock.records.header import BatchHeader, stamp
from penstock.storage.files.files import Directory, typed
from penstock.storage.log.cuttable import CuttableLog, LogConfig
from penstock.storage.log.removals import RemovalHistory
from penstock.storage.log.start_offset import StartOffsetJob, read_start_offset, write_start_offset
from penstock.storage.segments.jobs import FlushJob, RemovalJob
from penstock.storage.segments.recovery import DELETED_SUFFIX, CleanEnd, Cut, recover
from penstock.storage.segments.segment import (
    LOG_SUFFIX,
    SPAN_MAX,
    Mark,
    Segment,
    Staged,
    keep_index,
)

__all__ = ["CleanEnd", "FlushJob", "Log", "LogConfig", "RemovalJob", "StartOffsetJob"]

logger = logging.getLogger(__name__)


class Log(CuttableLog):
    """A partition's log. `config` may be replaced at any time; it holds for what comes."""

    __slots__ = ("_cut", "removals")

    def __init__(self, directory: Directory, config: LogConfig, segments: list[Segment]) -> None:
        """Use `open`."""
        super().__init__(directory, config, segments)
        for segment in segments:
            segment.compacted = self.is_compacted and segment.sealed
        # Why offsets are gone; and what recovery has just cut, until somebody says when that was.
        self.removals = RemovalHistory(directory)
        self._cut: Cut | None = None
        if not segments or segments[-1].sealed:
            self._start_segment(self.next_offset)
        self.start_offset = self.first_offset

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
            log.start_offset = max(start_offset, log.first_offset)
            return log
        except OSError as error:
            raise typed(error, f"opening {directory.path}") from error

    def explain_cut(self, now_ms: int) -> None:
        """After `open`: remember durably what recovery had to cut from the end."""
        if self._cut is not None:
            self.removals.keep(self._cut.removal(now_ms))
            self._cut = None

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

    def stage_copy(self, header: BatchHeader, batch: memoryview) -> None:
        """Keep a batch that has its place already: it is a copy of another log's. The same as
        `stage` in everything else."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert len(batch) == header.length, (len(batch), header.length)
        assert header.base_offset == self.next_offset, (header.base_offset, self.next_offset)
        next_offset = header.next_offset
        self._staged.append(
            (batch, header.base_offset, next_offset, header.max_timestamp_ms, header.term)
        )
        self.next_offset = next_offset

    def own_staged(self) -> None:
        """Copy what is staged, since the memory it lies in is about to be used again."""
        self._staged = [(memoryview(bytes(batch[0])), *batch[1:]) for batch in self._staged]

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
            if self._segments[-1].size_bytes > 0 and self._change is None:
                self._start_segment(self.written_offset)
        except OSError as error:
            raise typed(error, f"rolling {self.name}") from error

    def _start_segment(self, first_offset: int) -> Segment:
        segment = self._new_segment(first_offset)
        if len(self._segments) == 1 and self._rolls_durable < self.rolls:
            # Or a crash could take the first one's name and leave this one's: nothing would tell
            # that something came before it. It is rare that a segment is full so soon.
            self._directory.flush()
            self._rolls_durable = self.rolls
        segment.create()
        self.rolls += 1
        self._segments.append(segment)
        self._firsts.append(first_offset)
        self._begun_ms = None
        return segment

    def _undo(self, segment_count: int, mark: Mark | None) -> None:
        """Set the log back to where it was before a write that failed."""
        self.next_offset = self.written_offset
        has_rolled = len(self._segments) > segment_count
        self._begun_ms = None
        try:
            if mark is not None:
                self._segments[segment_count - 1].restore(mark)
            # What cannot be removed stays known, so that `abandon` leaves no gap before it.
            while len(self._segments) > segment_count:
                self._directory.remove(self._segments[-1].stem + LOG_SUFFIX)
                del self._segments[-1], self._firsts[-1]
            if has_rolled:
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
                    keep_index(active, active.index)
                clean_end = CleanEnd(
                    first_offset=active.first_offset,
                    size_bytes=active.size_bytes,
                    next_offset=active.next_offset,
                )
        finally:
            self.discard()
        return clean_end

    # --- removing ------------------------------------------------------------------------------

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
            while segments[0].sealed and segments[0].next_offset <= offset and not segments[0].held:
                log_name, *index_names = segments[0].file_names()
                deleted_name = log_name + DELETED_SUFFIX
                self._directory.rename(log_name, deleted_name)
                jobs.append(RemovalJob(self._directory, [*index_names, deleted_name]))
                del segments[0], self._firsts[0]
        except OSError as error:
            # What is renamed already has to be unlinked; the rest is asked for again.
            if not jobs:
                raise typed(error, f"deleting from {self.name}") from error
        self.start_offset = max(self.start_offset, self.first_offset)
        return jobs

    def start_offset_job(self, offset: int) -> StartOffsetJob:
        """What lets the records before the offset be gone for good, though their bytes stay until
        retention takes the segment. One at a time; `finish_start_offset` makes it hold."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert offset <= self.written_offset, (offset, self.written_offset)
        return StartOffsetJob(self._directory, offset)

    def finish_start_offset(self, job: StartOffsetJob) -> None:
        """Let the log begin where the job says; its StorageError if it failed."""
        if job.error is not None:
            raise job.error
        self.start_offset = max(self.start_offset, job.offset)
