"""Compaction of one log: when it is worth it, what is gone over, and the order of its jobs.

Of each key the latest record stays, at its offset (as Kafka's log cleaner has it; tombstones as
KIP-534). The disk work is in `storage.compaction.cleaning`; nothing here reads or writes, except a
header now and then and the journal at start. The invariant: only sealed segments below the limit
are touched, oldest first, each swap durable before the next; so wherever it ends, a record that is
gone has a later one of its key, and a tombstone is gone only after everything it deletes.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import CorruptLog, StorageError
from penstock.model.limits import COMPACTION_KEYS_MAX
from penstock.records.header import TIMESTAMP_MS_MAX
from penstock.storage.compaction.cleaning import (
    CleaningJob,
    DiscardingJob,
    ForgettingJob,
    Job,
    JournalJob,
    MappingJob,
    Pace,
    Rules,
    Source,
    Stopped,
    SwapJob,
)
from penstock.storage.compaction.key_map import KeyMap
from penstock.storage.files.files import Directory, typed
from penstock.storage.files.journal import read_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.log.log import Log
from penstock.storage.segments.segment import Segment

logger = logging.getLogger(__name__)

_OFFSET: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionConfig:
    """What of a topic's settings concerns compaction; see `model.topic_config`."""

    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a compaction would go over."""

    segments: Sequence[Segment]
    """All that may be compacted, oldest first."""
    dirty_offset: int
    """Before it nothing is new since the last compaction."""
    dirty_ratio: float

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset


def choose(
    log: Log, *, cleaned_offset: int, limit_offset: int, now_ms: int, config: CompactionConfig
) -> Choice | None:
    """What is worth compacting: when enough of it is new, or something is new for too long."""
    try:
        lag_ms = config.min_compaction_lag_ms
        # Without a lag nobody asks for the time, and it may even be in the future.
        newest_ms = now_ms - lag_ms if lag_ms else TIMESTAMP_MS_MAX
        segments = _cleanable(log, limit_offset, newest_ms)
        if not segments or segments[-1].next_offset <= cleaned_offset:
            return None
        dirty = [segment for segment in segments if segment.next_offset > cleaned_offset]
        dirty_bytes = sum(segment.size_bytes for segment in dirty)
        dirty_ratio = dirty_bytes / sum(segment.size_bytes for segment in segments)
        if dirty_ratio < config.min_cleanable_dirty_ratio:
            old_ms = now_ms - config.max_compaction_lag_ms
            if old_ms < 0 or not any(0 <= _first_time_ms(segment) <= old_ms for segment in dirty):
                return None
    except OSError as error:
        raise typed(error, f"reading {log.name}") from error
    return Choice(
        segments=segments,
        dirty_offset=max(cleaned_offset, segments[0].first_offset),
        dirty_ratio=dirty_ratio,
    )


def _cleanable(log: Log, limit_offset: int, newest_ms: int) -> list[Segment]:
    """The sealed segments that may be compacted: committed, and without a message that is newer."""
    segments = []
    for segment in log.sealed_segments():
        if segment.next_offset > limit_offset or segment.max_timestamp_ms > newest_ms:
            break
        segments.append(segment)
    return segments


def _first_time_ms(segment: Segment) -> int:
    """About when the segment was begun."""
    _, header = next(segment.walk(0, None))
    return header.max_timestamp_ms


def read_cleaned_offset(directory: Directory, next_offset: int) -> int:
    """Up to where the log was compacted; 0 if nobody knows, which costs a longer compaction."""
    try:
        payload = read_journal(directory, COMPACTION_JOURNAL)
    except CorruptLog as error:
        logger.warning("The log is compacted from its beginning: %s", error)
        return 0
    if payload is None or len(payload) != _OFFSET.size:
        return 0
    (offset,) = _OFFSET.unpack(payload)
    return int(offset) if 0 <= offset <= next_offset else 0


class Compaction:
    """One going-over of a log. Its jobs are run one after the other, beside the loop:

    while (job := compaction.next_job()) is not None:
        job.run()
    """

    def __init__(
        self,
        log: Log,
        choice: Choice,
        *,
        now_ms: int,
        delete_retention_ms: int,
        producer_offsets: frozenset[int],
        pace: Pace,
        keys_max: int = COMPACTION_KEYS_MAX,
    ) -> None:
        self.bytes_before = 0
        self.bytes_after = 0
        # Where the next one goes on; before the end of the choice if there were too many keys.
        self.cleaned_offset = choice.dirty_offset
        self._log = log
        self._choice = choice
        self._left = list(choice.segments)
        self._directory = choice.segments[0].directory
        self._now_ms = now_ms
        self._horizon_ms = min(now_ms + delete_retention_ms, TIMESTAMP_MS_MAX)
        self._producer_offsets = producer_offsets
        self._keys_max = keys_max
        self._pace = pace
        self._jobs = self._run()

    def next_job(self) -> Job | None:
        """Take in what the last job did, on the loop. The next one; None when it is done.

        StorageError if a job failed, Stopped if it is not wanted any more: it is over then.
        """
        return next(self._jobs, None)

    def _run(self) -> Iterator[Job]:
        key_map = KeyMap(self._pace.breathe)
        failure: StorageError | Stopped | None = None
        try:
            yield from self._go_over(key_map)
        except (StorageError, Stopped) as error:
            failure = error
        if failure is not None and self._left and self._left[0] not in self._log.sealed_segments():
            # Retention took it meanwhile, so a job may have missed its file.
            failure = Stopped("its segments are gone")
        yield ForgettingJob(self._directory, key_map)
        if failure is not None:
            raise failure

    def _go_over(self, key_map: KeyMap) -> Iterator[Job]:
        segments = self._left
        if not self._log.is_compacted:
            yield from _done(JournalJob(self._directory, self._choice.dirty_offset))
        mapping = MappingJob(
            self._directory,
            [Source.of(segment) for segment in segments],
            key_map,
            self._pace,
            from_offset=self._choice.dirty_offset,
            keys_max=self._keys_max,
        )
        yield from _done(mapping)
        rules = Rules(
            key_map=key_map,
            end_offset=mapping.end_offset,
            now_ms=self._now_ms,
            horizon_ms=self._horizon_ms,
            producer_offsets=self._producer_offsets,
        )
        while segments and segments[0].first_offset < mapping.end_offset:
            cleaning = CleaningJob(
                self._directory,
                [Source.of(segment) for segment in segments],
                rules,
                self._pace,
                segment_bytes=self._log.writer.config.segment_bytes,
                interval_bytes=self._log.writer.config.index_interval_bytes,
            )
            yield from _done(cleaning)
            old = segments[: cleaning.taken]
            del segments[: cleaning.taken]
            if not cleaning.is_unchanged:
                yield from self._swap(old, cleaning)
            self.bytes_before += sum(segment.size_bytes for segment in old)
            self.bytes_after += cleaning.output.size_bytes
        yield from _done(JournalJob(self._directory, mapping.end_offset))
        self.cleaned_offset = mapping.end_offset

    def _swap(self, old: list[Segment], cleaning: CleaningJob) -> Iterator[Job]:
        log = self._log
        try:
            self._pace.check()
            if log.failed or not log.cutter.hold(old):
                raise Stopped("its segments are gone")
        except (StorageError, Stopped):
            yield DiscardingJob(self._directory)
            raise
        swap = SwapJob(self._directory, [Source.of(segment) for segment in old], cleaning.output)
        yield swap
        if not swap.is_renamed:
            log.cutter.let_go(old)
        else:
            log.cutter.replace(
                old,
                Segment(
                    self._directory,
                    first_offset=old[0].first_offset,
                    next_offset=old[-1].next_offset,
                    size_bytes=cleaning.output.size_bytes,
                    sealed=True,
                    interval_bytes=log.writer.config.index_interval_bytes,
                    index=cleaning.output.index,
                    compacted=True,
                ),
            )
            if swap.error is not None:
                # What the folder has now is what the disk may never get to have.
                log.writer.failure = (
                    f"The partition is read-only since a compaction failed to be flushed. "
                    f"{swap.error}"
                )
        if swap.error is not None:
            raise swap.error


def _done(job: Job) -> Iterator[Job]:
    """Have the job run, and raise what it ended with."""
    yield job
    if job.error is not None:
        raise job.error
