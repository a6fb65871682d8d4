"""The writer of a log: batches are staged, written all at once, and made durable.

Not what is taken away again (`storage.log.cutter`). The invariant: offsets rise without a gap as
they are written; a write happens whole or not at all; after a failed flush nothing is written ever
again, because the kernel may have dropped what it could not write and would report the next flush
as a success. `written_offset` of the chain is what is in the files, `next_offset` what is staged
besides; nothing is written while the log is being cut on the disk.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import StorageError, StorageFailed
from penstock.records.header import BatchHeader, stamp
from penstock.storage.files.files import Directory, typed
from penstock.storage.segments.chain import Chain
from penstock.storage.segments.index import SegmentIndex
from penstock.storage.segments.jobs import FlushJob
from penstock.storage.segments.recovery import CleanEnd
from penstock.storage.segments.segment import (
    LOG_SUFFIX,
    SPAN_MAX,
    Mark,
    Segment,
    Staged,
    keep_index,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """What of a topic's settings concerns its files; see `model.topic_config`."""

    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int


class Writer:
    """All calls come from one thread. Jobs run elsewhere, at most one `FlushJob` at a time.
    `config` may be replaced at any time; it holds for what comes."""

    __slots__ = (
        "_begun_ms",
        "_chain",
        "_directory",
        "_durable_offset",
        "_job",
        "_rolls_durable",
        "_staged",
        "config",
        "failure",
        "is_waiting",
        "next_offset",
        "rolls",
    )

    def __init__(self, directory: Directory, config: LogConfig, chain: Chain) -> None:
        """The chain's batches are durable; it may be empty, until `start_segment`."""
        self.config = config
        self.failure: str | None = None
        # Segments begun since the log was opened, and those of them whose name is durable.
        self.rolls = 0
        # The name of the file that was found may not be durable either: a killed process leaves
        # names that the disk does not have yet.
        self._rolls_durable = -1
        # Whether the log is being cut on the disk.
        self.is_waiting = False
        self.next_offset = self._durable_offset = chain.written_offset
        self._directory = directory
        self._chain = chain
        self._staged: list[Staged] = []
        self._job: FlushJob | None = None
        # When the active segment got its first batch; None until somebody asks.
        self._begun_ms: int | None = None

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

    def unstage(self) -> None:
        """Forget what is staged: its offsets go to the next."""
        self._staged = []
        self.next_offset = self._chain.written_offset

    def write_staged(self, now_ms: int) -> None:
        """Write every staged batch, or none: DiskFull or StorageFailed undoes all of them."""
        batches = self._staged
        if not batches:
            return
        assert not self.is_waiting, "written while the log is being cut"
        self._staged = []
        chain = self._chain
        assert batches[0][1] == chain.written_offset, (batches[0][1], chain.written_offset)
        segments_before = len(chain.segments)
        segment = chain.segments[-1]
        mark = None
        try:
            mark = segment.mark()
            if self.is_roll_due(now_ms):
                segment = self.start_segment(batches[0][1])
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
                    segment = self.start_segment(batch[1])
                    grown_bytes = len(batch[0])
                run.append(batch)
                size_bytes = grown_bytes
            segment.append(run, interval_bytes)
        except (OSError, StorageError) as error:
            self._undo(segments_before, mark)
            if isinstance(error, OSError):
                raise typed(error, f"writing to {chain.name}") from error
            raise
        if self._begun_ms is None:
            self._begun_ms = now_ms
        assert segment.next_offset == self.next_offset, (segment.next_offset, self.next_offset)
        chain.written_offset = self.next_offset

    def is_roll_due(self, now_ms: int) -> bool:
        """Whether the active segment is old enough to be sealed (`segment_ms`)."""
        active = self._chain.segments[-1]
        if active.size_bytes == 0:
            return False
        if self._begun_ms is None:
            # After a restart: its first message says how old it is, as far as it can be believed.
            try:
                _, header = next(active.walk(0, active.first_offset))
            except OSError as error:
                raise typed(error, f"reading {self._chain.name}") from error
            self._begun_ms = min(header.max_timestamp_ms, now_ms)
        return now_ms - self._begun_ms >= self.config.segment_ms

    def roll(self) -> None:
        """Begin a new segment unless the active one is empty; the next flush job seals the old."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert not self._staged, len(self._staged)
        try:
            if self._chain.segments[-1].size_bytes > 0 and not self.is_waiting:
                self.start_segment(self._chain.written_offset)
        except OSError as error:
            raise typed(error, f"rolling {self._chain.name}") from error

    def start_segment(self, first_offset: int) -> Segment:
        """Make the active segment's successor, or the first there is."""
        segment = self._new_segment(first_offset)
        if len(self._chain.segments) == 1 and self._rolls_durable < self.rolls:
            # Or a crash could take the first one's name and leave this one's: nothing would tell
            # that something came before it. It is rare that a segment is full so soon.
            self._directory.flush()
            self._rolls_durable = self.rolls
        segment.create()
        self.rolls += 1
        self._chain.append(segment)
        self._begun_ms = None
        return segment

    def _undo(self, segment_count: int, mark: Mark | None) -> None:
        """Set the log back to where it was before a write that failed."""
        chain = self._chain
        self.next_offset = chain.written_offset
        has_rolled = len(chain.segments) > segment_count
        self._begun_ms = None
        try:
            if mark is not None:
                chain.segments[segment_count - 1].restore(mark)
            # What cannot be removed stays known, so that `abandon` leaves no gap before it.
            while len(chain.segments) > segment_count:
                self._directory.remove(chain.segments[-1].stem + LOG_SUFFIX)
                chain.take_last(1)
            if has_rolled:
                # Or the name could come back after a crash, with offsets given anew since.
                self._directory.flush()
        except OSError as error:
            self.failure = f"{typed(error, f'undoing a write to {chain.name}')}"

    # --- making durable ------------------------------------------------------------------------

    @property
    def is_flushing(self) -> bool:
        return self._job is not None

    def flush_job(self, include_active: bool) -> FlushJob | None:
        """What makes everything written so far durable, or None if it is.

        Without the active segment: only what was rolled, which is sealed by the job.
        """
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert self._job is None, "a flush job is under way"
        segments, written_offset = self._chain.segments, self._chain.written_offset
        active = segments[-1]
        rolled_from = len(segments) - 1
        while rolled_from > 0 and not segments[rolled_from - 1].sealed:
            rolled_from -= 1
        rolled = segments[rolled_from:-1]
        durable_offset = active.first_offset if rolled else self._durable_offset
        flush_active = (
            include_active and active.size_bytes > 0 and written_offset > self._durable_offset
        )
        if flush_active:
            durable_offset = written_offset
            # The high watermark will stand here, and readers will end here.
            active.remember(durable_offset, active.size_bytes)
        if not rolled and not flush_active:
            return None
        assert self._durable_offset <= durable_offset <= written_offset, (
            self._durable_offset,
            durable_offset,
            written_offset,
        )
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
            raise typed(error, f"flushing {self._chain.name}") from error
        return self._job

    def finish_flush(self, job: FlushJob) -> int:
        """Take in what the job did; the offset before which everything is durable."""
        assert job is self._job, "not the job under way"
        self._job = None
        if job.error is not None:
            failure = typed(job.error, f"flushing {self._chain.name}")
            self.failure = f"The partition is read-only since a flush failed. {failure}"
            raise StorageFailed(self.failure) from job.error
        if self.failure is not None:
            raise StorageFailed(self.failure)
        for segment in job.segments:
            segment.seal()
        assert job.durable_offset <= self._chain.written_offset, job.durable_offset
        self._rolls_durable = max(self._rolls_durable, job.rolls)
        self._durable_offset = max(self._durable_offset, job.durable_offset)
        return self._durable_offset

    def finish(self) -> CleanEnd | None:
        """Make everything durable at once; None after an earlier failure. StorageFailed."""
        assert not self._staged, len(self._staged)
        if self.failure is not None:
            return None
        job = self.flush_job(include_active=True)
        if job is not None:
            job.run()
            self.finish_flush(job)
        active = self._chain.segments[-1]
        if active.index_loaded:
            keep_index(active, active.index)
        return CleanEnd(
            first_offset=active.first_offset,
            size_bytes=active.size_bytes,
            next_offset=active.next_offset,
        )

    def stop(self, reason: str) -> None:
        """Nothing is written any more."""
        self._staged = []
        self.failure = self.failure or reason

    # --- where it goes on, once the chain was cut ------------------------------------------------

    def check_free(self) -> None:
        """Nothing may be under way on the disk when the log is cut. StorageFailed."""
        if self.failure is not None:
            raise StorageFailed(self.failure)
        assert not self.is_flushing, "a flush job is under way"
        assert not self.is_waiting, "two changes at a time"

    def end_at(self, offset: int) -> None:
        """What was staged is void, and the next batch goes there."""
        self._staged = []
        self._begun_ms = None
        self.next_offset = self._chain.written_offset = offset
        self._durable_offset = min(self._durable_offset, offset)

    def begin_at(self, offset: int) -> Segment:
        """The same with nothing before it: in a segment whose file is yet to be made."""
        self.end_at(offset)
        self._durable_offset = offset
        self.rolls += 1
        return self._new_segment(offset)

    def folder_flushed(self) -> None:
        """All names of its segments are durable."""
        self._rolls_durable = self.rolls

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
