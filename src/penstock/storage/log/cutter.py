"""The cutter of a log: it takes off the end, deletes from the beginning, and puts what compaction
made in the place of segments.

Not the jobs (`storage.log.cutting`), not what may go (`storage.log.retention`), and not the
compaction, which chooses and writes (`storage.compaction.compaction`). The invariant: what goes is
gone from the chain at once, so nobody reads it, and from the disk by a job; while the end is taken
off there, nothing is written. A segment that is held is neither deleted nor let go of, and one that
stands for several has all of their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from penstock.model.errors import StorageError, StorageFailed
from penstock.storage.files.files import Directory, typed
from penstock.storage.log.compacted import is_compacted
from penstock.storage.log.cutting import ResetJob, TruncateJob, take_off_end
from penstock.storage.log.start_offset import StartOffsetJob
from penstock.storage.log.writer import Writer
from penstock.storage.segments.chain import Chain, out_of_range
from penstock.storage.segments.jobs import RemovalJob
from penstock.storage.segments.recovery import DELETED_SUFFIX
from penstock.storage.segments.segment import Segment

logger = logging.getLogger(__name__)


class Cutter:
    """All calls come from the thread that writes the log."""

    __slots__ = ("_chain", "_change", "_directory", "_writer")

    def __init__(self, directory: Directory, chain: Chain, writer: Writer) -> None:
        self._directory = directory
        self._chain = chain
        self._writer = writer
        self._change: TruncateJob | ResetJob | None = None

    @property
    def is_changing(self) -> bool:
        """Whether it is being cut or begun anew."""
        return self._change is not None

    # --- the end, or all of it -------------------------------------------------------------------

    def truncate_job(self, offset: int) -> TruncateJob:
        """Drop everything from the offset on, which must be where a batch begins: here at once, on
        the disk by the job. Nothing is written before `finish_change`."""
        self._writer.check_free()
        chain = self._chain
        held = [segment.next_offset for segment in chain.segments if segment.held]
        assert max(held, default=0) <= offset, "cut where it is being compacted"
        if not chain.start_offset <= offset <= chain.written_offset:
            raise out_of_range(offset, chain.start_offset, chain.written_offset)
        self._writer.unstage()
        try:
            segment = chain.segment_at(offset)
            if offset < segment.next_offset:
                _, header = next(segment.walk(segment.position_of(offset), None))
                assert header.base_offset == offset, (header.base_offset, offset)
            sealed_names = segment.file_names() if segment.sealed else []
            segment.hold()
            segment.set_back(offset)
        except OSError as error:
            raise self._failed(f"{typed(error, f'truncating {chain.name}')}") from error
        assert segment.next_offset == offset, (segment.path, offset)
        doomed = chain.take_last(len(chain.segments) - chain.segments.index(segment) - 1)
        # What is to be cut was never committed, and only what is committed is compacted.
        segment.sealed = segment.compacted = False
        self._writer.end_at(offset)
        job = TruncateJob(self._directory, doomed, segment, sealed_names)
        self._begin(job)
        return job

    def reset_job(self, offset: int) -> ResetJob:
        """Drop everything, and go on at an offset that the log does not reach, or has something
        else at; by a job as in `truncate_job`. A crash in between leaves a log that starts before
        it: whoever asked for this must know it then, and ask again."""
        self._writer.check_free()
        assert not self.is_held, "reset while being compacted"
        chain = self._chain
        doomed = chain.take_last(len(chain.segments))
        segment = self._writer.begin_at(offset)
        chain.append(segment)
        chain.start_offset = offset
        job = ResetJob(self._directory, doomed, segment)
        self._begin(job)
        return job

    def _begin(self, job: TruncateJob | ResetJob) -> None:
        self._change = job
        self._writer.is_waiting = True

    def finish_change(self, job: TruncateJob | ResetJob) -> None:
        """Go on after what the job did; StorageFailed if that failed."""
        assert job is self._change, "not the job under way"
        self._change = None
        self._writer.is_waiting = False
        if job.error is not None:
            what = f"{job.what} {self._chain.name}"
            raise self._failed(f"{typed(job.error, what)}") from job.error
        job.segment.held = False
        if job.has_flushed_folder:
            self._writer.folder_flushed()

    def _failed(self, failure: str) -> StorageFailed:
        """Nobody knows what the disk has: nothing is written any more."""
        self._writer.failure = failure
        return StorageFailed(failure)

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

    def abandon(self, offset: int) -> None:
        """After a failure, with no job under way: take out what was written from the offset on, as
        far as the disk lets us. Nobody was told that it is durable, and a restart could take it
        for that. A segment that a job had sealed stays: it was flushed before it got its name."""
        assert self._writer.failure is not None, "abandoned without a failure"
        assert not self._writer.is_flushing, "a flush job is under way"
        chain = self._chain
        try:
            take_off_end(self._directory, chain, offset)
        except (OSError, StorageError) as error:
            logger.warning("%s could not be cut back to offset %d: %s", chain.name, offset, error)
        self._writer.end_at(chain.segments[-1].next_offset)

    # --- the beginning ---------------------------------------------------------------------------

    def delete_before(self, offset: int) -> list[RemovalJob]:
        """Let go of the sealed segments that end before the offset; the jobs unlink the files."""
        jobs = []
        chain = self._chain
        segments = chain.segments
        try:
            while segments[0].sealed and segments[0].next_offset <= offset and not segments[0].held:
                log_name, *index_names = segments[0].file_names()
                deleted_name = log_name + DELETED_SUFFIX
                self._directory.rename(log_name, deleted_name)
                jobs.append(RemovalJob(self._directory, [*index_names, deleted_name]))
                chain.drop_first()
        except OSError as error:
            # What is renamed already has to be unlinked; the rest is asked for again.
            if not jobs:
                raise typed(error, f"deleting from {chain.name}") from error
        chain.start_offset = start_offset = max(chain.start_offset, chain.first_offset)
        assert start_offset <= chain.written_offset, (start_offset, chain.written_offset)
        return jobs

    def start_offset_job(self, offset: int) -> StartOffsetJob:
        """What lets the records before the offset be gone for good, though their bytes stay until
        retention takes the segment. One at a time; `finish_start_offset` makes it hold."""
        if self._writer.failure is not None:
            raise StorageFailed(self._writer.failure)
        written_offset = self._chain.written_offset
        assert offset <= written_offset, (offset, written_offset)
        return StartOffsetJob(self._directory, offset)

    def finish_start_offset(self, job: StartOffsetJob) -> None:
        """Let the log begin where the job says; its StorageError if it failed."""
        if job.error is not None:
            raise job.error
        written_offset = self._chain.written_offset
        assert job.offset <= written_offset, (job.offset, written_offset)
        self._chain.start_offset = max(self._chain.start_offset, job.offset)

    # --- what compaction made --------------------------------------------------------------------

    @property
    def is_held(self) -> bool:
        """Whether some of its files are being replaced."""
        return any(segment.held for segment in self._chain.segments)

    def hold(self, segments: Sequence[Segment]) -> bool:
        """Before the files of these sealed segments are replaced: keep them open, so that they are
        read by what is open, and let retention wait. False, with nothing held, if they are no
        longer all there, side by side. Ended by `replace`, or by `let_go` if it came to nothing.

        The mark of `storage.log.compacted` must be durable by now.
        """
        if self._place_of(segments) is None:
            return False
        assert is_compacted(self._directory), "compacted without a mark that there may be gaps"
        try:
            for segment in segments:
                segment.hold()
        except OSError as error:
            self.let_go(segments)
            raise typed(error, f"reading {self._chain.name}") from error
        return True

    def let_go(self, segments: Sequence[Segment]) -> None:
        """The held segments keep their files after all."""
        for segment in segments:
            segment.held = False

    def replace(self, old: Sequence[Segment], new: Segment) -> None:
        """Read the compacted segment from now on, which stands for all offsets of the held ones:
        when the names on disk are changed. Slices that were handed out stay readable."""
        place = self._place_of(old)
        assert place is not None, "replaced without being held"
        assert all(segment.held for segment in old), "replaced without being held"
        assert new.first_offset == old[0].first_offset, (new.path, old[0].path)
        assert new.next_offset == old[-1].next_offset, (new.path, old[-1].path)
        new.compacted = True
        self.let_go(old)
        self._chain.is_compacted = True
        self._chain.replace(place, len(old), new)

    def _place_of(self, segments: Sequence[Segment]) -> int | None:
        """Where these segments stand in the chain, all of them side by side."""
        assert all(segment.sealed for segment in segments), "only sealed segments are compacted"
        chained = self._chain.segments
        if not segments or segments[0] not in chained:
            return None
        place = chained.index(segments[0])
        is_whole = chained[place : place + len(segments)] == list(segments)
        return place if is_whole else None
