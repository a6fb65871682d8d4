"""A log whose end may be taken off, or all of it: in memory at once, on the disk by a job.

Not the jobs (`storage.log.cutting`), and not the writing (`storage.log.log`). The invariant: while
such a job is under way nothing is written, and what it takes away is not read.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from penstock.model.errors import StorageError, StorageFailed
from penstock.storage.files.files import Directory, typed
from penstock.storage.log.compacted import is_compacted
from penstock.storage.log.cutting import ResetJob, TruncateJob, take_off_end
from penstock.storage.log.replacing import ReplaceableLog
from penstock.storage.segments.chain import out_of_range, segment_at
from penstock.storage.segments.index import SegmentIndex
from penstock.storage.segments.jobs import FlushJob
from penstock.storage.segments.segment import Segment, Staged

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What of a topic's settings concerns its files; see `model.topic_config`."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int


class CuttableLog(ReplaceableLog):
    """All calls come from the thread that writes the log."""

    __slots__ = (
        "_begun_ms",
        "_change",
        "_durable_offset",
        "_job",
        "_rolls_durable",
        "_staged",
        "config",
        "failure",
        "next_offset",
        "rolls",
    )

    def __init__(self, directory: Directory, config: LogConfig, segments: list[Segment]) -> None:
        super().__init__(directory, segments, is_compacted=is_compacted(directory))
        self.config = config
        self._staged: list[Staged] = []
        self._job: FlushJob | None = None
        self._change: TruncateJob | ResetJob | None = None
        self.failure: str | None = None
        # Segments begun since the log was opened, and those of them whose name is durable.
        self.rolls = 0
        # The name of the file that was found may not be durable either: a killed process leaves
        # names that the disk does not have yet.
        self._rolls_durable = -1
        # When the active segment got its first batch; None until somebody asks.
        self._begun_ms: int | None = None
        end = segments[-1].next_offset if segments else 0
        self.next_offset = self.written_offset = self._durable_offset = end

    @property
    def failed(self) -> bool:
        """Whether the log is read-only until the broker is restarted."""
        return self.failure is not None

    def unstage(self) -> None:
        """Forget what is staged: its offsets go to the next."""
        self._staged = []
        self.next_offset = self.written_offset

    def truncate_job(self, offset: int) -> TruncateJob:
        """Drop everything from the offset on, which must be where a batch begins: here at once, on
        the disk by the job. Nothing is written before `finish_change`."""
        self._check_change()
        held = [segment.next_offset for segment in self._segments if segment.held]
        assert max(held, default=0) <= offset, "cut where it is being compacted"
        if not self.start_offset <= offset <= self.written_offset:
            raise out_of_range(offset, self.start_offset, self.written_offset)
        self._staged = []
        try:
            segment = segment_at(self._segments, self._firsts, offset)
            if offset < segment.next_offset:
                _, header = next(segment.walk(segment.position_of(offset), None))
                assert header.base_offset == offset, (header.base_offset, offset)
            sealed_names = segment.file_names() if segment.sealed else []
            segment.hold()
            segment.set_back(offset)
        except OSError as error:
            self.failure = f"{typed(error, f'truncating {self.name}')}"
            raise StorageFailed(self.failure) from error
        count = self._segments.index(segment) + 1
        doomed = self._segments[count:]
        del self._segments[count:], self._firsts[count:]
        # What is to be cut was never committed, and only what is committed is compacted.
        segment.sealed = segment.compacted = False
        self._begun_ms = None
        self.next_offset = self.written_offset = offset
        self._durable_offset = min(self._durable_offset, offset)
        self._change = TruncateJob(self._directory, doomed, segment, sealed_names)
        return self._change

    def reset_job(self, offset: int) -> ResetJob:
        """Drop everything, and go on at an offset that the log does not reach, or has something
        else at; by a job as in `truncate_job`. A crash in between leaves a log that starts before
        it: whoever asked for this must know it then, and ask again."""
        self._check_change()
        assert not self.is_held, "reset while being compacted"
        self._staged = []
        doomed = self._segments
        self._segments, self._firsts = [self._new_segment(offset)], [offset]
        self.rolls += 1
        self._begun_ms = None
        self.next_offset = self.written_offset = self._durable_offset = self.start_offset = offset
        self._change = ResetJob(self._directory, doomed, self._segments[0])
        return self._change

    def finish_change(self, job: TruncateJob | ResetJob) -> None:
        """Go on after what the job did; StorageFailed if that failed."""
        assert job is self._change, "not the job under way"
        self._change = None
        if job.error is not None:
            self.failure = f"{typed(job.error, f'{job.what} {self.name}')}"
            raise StorageFailed(self.failure) from job.error
        job.segment.held = False
        if job.has_flushed_folder:
            self._rolls_durable = self.rolls

    def truncate(self, offset: int) -> None:
        """What `truncate_job` does, to the end."""
        job = self.truncate_job(offset)
        job.run()
        self.finish_change(job)

    def reset(self, offset: int) -> None:
        """What `reset_job` does, to the end."""
        job = self.reset_job(offset)
        job.run()
        self.finish_change(job)

    @property
    def is_changing(self) -> bool:
        """Whether it is being cut or begun anew."""
        return self._change is not None

    def _check_change(self) -> None:
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert self._job is None, "a flush job is under way"
        assert self._change is None, "two changes at a time"

    def abandon(self, offset: int) -> None:
        """After a failure, with no job under way: take out what was written from the offset on, as
        far as the disk lets us. Nobody was told that it is durable, and a restart could take it
        for that. A segment that a job had sealed stays: it was flushed before it got its name."""
        assert self.failure is not None, "abandoned without a failure"
        assert self._job is None, "a flush job is under way"
        self._staged = []
        try:
            take_off_end(self._directory, self._segments, self._firsts, offset)
        except (OSError, StorageError) as error:
            logger.warning("%s could not be cut back to offset %d: %s", self.name, offset, error)
        self.next_offset = self.written_offset = self._segments[-1].next_offset

    def _new_segment(self, first_offset: int) -> Segment:
        return Segment(
            self._directory,
            first_offset=first_offset,
            next_offset=first_offset,
            size_bytes=0,
            sealed=False,
            interval_bytes=self.config.index_interval_bytes,
            index=SegmentIndex(),
        )
