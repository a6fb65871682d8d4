"""The disk work of a compaction, job by job: which keys there are, what stays, the swap of files.

A job sees only names, sizes and finished numbers; what it did is taken in by
`storage.compaction.compaction` on the loop. The contract that `storage.segments.recovery` rests on:

- what stays of some neighbouring sealed segments is written to `compaction.cleaned` and flushed;
- its rename to the sealed name of all their offsets is the one moment that counts: before it a
  crash leaves the old segments, after it the new one, and never a mixture, since the old ones lie
  within its offsets and are removed only when that name is durable;
- a segment alone keeps its name, so its index is durably gone before the rename: an index of the
  old file must not be taken for one of the new.

So a record is gone for good only where a later one of its key is durable, or its time has come.
"""

from __future__ import annotations

import logging
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.model.errors import BatchError, InvalidBatch, StorageError, StorageFailed
from penstock.model.limits import BATCH_BYTES_MAX, MIB, OPENED_BATCH_BYTES_MAX
from penstock.records.header import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    BatchHeader,
    check_batch,
    read_header,
)
from penstock.records.rewrite import (
    OpenedBatch,
    delete_horizon_ms,
    empty_batch,
    keep_records,
    open_batch,
)
from penstock.storage.compaction.key_map import KeyMap
from penstock.storage.files.files import Buffer, Directory, File, remove_if_there, typed
from penstock.storage.files.journal import write_journal
from penstock.storage.log.compacted import COMPACTION_JOURNAL
from penstock.storage.segments.index import OFFSET_SUFFIX, TIME_SUFFIX, SegmentIndex, write_index
from penstock.storage.segments.recovery import CLEANED_NAME
from penstock.storage.segments.scan import corrupt
from penstock.storage.segments.segment import LOG_SUFFIX, SPAN_MAX, Segment, sealed_stem

logger = logging.getLogger(__name__)

# Read, copied and written at once.
_CHUNK_BYTES: Final = 1 * MIB
# Segments merged into one at a time: the loop opens each of them before the swap.
_SOURCES_MAX: Final = 64
_LENGTH: Final = struct.Struct(">i")
_LENGTH_POSITION: Final = 8
_OFFSET: Final = struct.Struct(">q")
# The event loop waits for Python's lock while compaction computes, and is sure to get it only while
# compaction sleeps. So long it works at a time, unless one batch takes longer to decode; and so
# long it rests, which costs it about a fifth of its speed.
_WORK_S: Final = 0.0005
_REST_S: Final = 0.00005


class Stopped(Exception):
    """The compaction is no longer wanted. What it has swapped so far stays swapped."""


class Pace:
    """Lets others have their turn, and ends the work when nobody wants it any more."""

    __slots__ = ("_due", "_rest", "_wanted")

    def __init__(
        self, wanted: Callable[[], bool], rest: Callable[[float], None] = time.sleep
    ) -> None:
        self._wanted = wanted
        self._rest = rest
        self._due = 0.0

    def check(self) -> None:
        """Raise Stopped if there is no use in going on."""
        if not self._wanted():
            raise Stopped("it was told to stop")

    def breathe(self) -> None:
        """Rest for a moment if it is time to."""
        if time.perf_counter() >= self._due:
            self._rest(_REST_S)
            self._due = time.perf_counter() + _WORK_S


class Source(NamedTuple):
    """A sealed segment as a job sees it."""

    stem: str
    first_offset: int
    next_offset: int
    size_bytes: int

    @classmethod
    def of(cls, segment: Segment) -> Source:
        return cls(segment.stem, segment.first_offset, segment.next_offset, segment.size_bytes)


class Job(ABC):
    """A step of a compaction, run once on any thread. Its outcome counts if `error` is None."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.error: StorageError | Stopped | None = StorageFailed("The job has not ended.")

    def run(self) -> None:
        try:
            self._do()
            self.error = None
        except OSError as error:
            self.error = typed(error, f"compacting {self._directory.path}")
        except (StorageError, Stopped) as error:
            self.error = error

    @abstractmethod
    def _do(self) -> None: ...


class JournalJob(Job):
    """Notes how far a log is compacted. Before the first time, that it may have gaps at all."""

    def __init__(self, directory: Directory, cleaned_offset: int) -> None:
        super().__init__(directory)
        self._cleaned_offset = cleaned_offset

    def _do(self) -> None:
        write_journal(self._directory, COMPACTION_JOURNAL, _OFFSET.pack(self._cleaned_offset))


class MappingJob(Job):
    """Learns the latest offset of each key from an offset on."""

    def __init__(
        self,
        directory: Directory,
        sources: Sequence[Source],
        key_map: KeyMap,
        pace: Pace,
        *,
        from_offset: int,
        keys_max: int,
    ) -> None:
        super().__init__(directory)
        # Before it every key is known. Short of the last source if there are too many of them.
        self.end_offset = from_offset
        self._sources = sources
        self._key_map = key_map
        self._pace = pace
        self._keys_max = keys_max

    def _do(self) -> None:
        from_offset = self.end_offset
        room = self._keys_max
        for source in self._sources:
            if source.next_offset <= from_offset:
                continue
            file = self._directory.open(source.stem + LOG_SUFFIX)
            for _, header, batch in read_batches(file, source, self._pace):
                if header.next_offset <= from_offset:
                    continue
                room -= self._learn(header, batch)
                self.end_offset = header.next_offset
                if room <= 0:
                    # Keys are counted only when there were enough records: it takes a while.
                    room = self._keys_max - len(self._key_map)
                    if room <= 0:
                        return
            self.end_offset = source.next_offset

    def _learn(self, header: BatchHeader, batch: memoryview) -> int:
        """How many records there were."""
        if header.is_control or header.record_count == 0:
            return 0
        try:
            messages = open_batch(header, batch, OPENED_BATCH_BYTES_MAX).messages
        except InvalidBatch:
            # Nobody could read its keys; the batch itself is kept as it is.
            return 0
        self._key_map.learn(messages)
        return len(messages)


class ForgettingJob(Job):
    """Gives back the memory of a map of keys, which takes a while."""

    def __init__(self, directory: Directory, key_map: KeyMap) -> None:
        super().__init__(directory)
        self._key_map = key_map

    def _do(self) -> None:
        self._key_map.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What stays of a batch."""

    key_map: KeyMap
    end_offset: int
    """The map knows the keys before it; what lies behind is for another time."""
    now_ms: int
    horizon_ms: int
    """Until when tombstones stay that no compaction has met before."""
    producer_offsets: frozenset[int]
    """Where the last batch of each producer begins that is remembered: it tells their sequence."""

    def apply(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """The batch as it stays: the very same if all of it does, None if nothing does."""
        if header.is_control or header.base_offset >= self.end_offset:
            return batch
        if header.record_count == 0:
            return batch if header.base_offset in self.producer_offsets else None
        try:
            opened = open_batch(header, batch, OPENED_BATCH_BYTES_MAX)
        except InvalidBatch as error:
            logger.warning("A batch that cannot be opened stays as it is. %s", error)
            return batch
        horizon_ms = delete_horizon_ms(header)
        messages = opened.messages
        kept = self.key_map.survivors(
            messages, keep_tombstones=horizon_ms is None or self.now_ms < horizon_ms
        )
        if not kept:
            is_last = header.base_offset in self.producer_offsets
            return empty_batch(header) if is_last else None
        if horizon_ms is None and any(messages[index].value is None for index in kept):
            changed = self._with_horizon(opened, kept)
            if changed is not None:
                return changed
        return batch if len(kept) == len(messages) else keep_records(opened, kept)

    def _with_horizon(self, opened: OpenedBatch, kept: Sequence[int]) -> Buffer | None:
        """The records with the time from which on tombstones go; None where there is no room for
        it, and they stay."""
        try:
            changed = keep_records(opened, kept, self.horizon_ms)
        except InvalidBatch:
            return None
        return changed if len(changed) <= BATCH_BYTES_MAX else None


class CleaningJob(Job):
    """Writes what stays of the first sources to one new file: of as many as it has room for."""

    def __init__(
        self,
        directory: Directory,
        sources: Sequence[Source],
        rules: Rules,
        pace: Pace,
        *,
        segment_bytes: int,
        interval_bytes: int,
    ) -> None:
        super().__init__(directory)
        self.output = Output(directory, sources[0].first_offset, interval_bytes, pace)
        self.taken = 0
        # The sources taken are one, and it stays as it is: there is no new file.
        self.is_unchanged = False
        self._sources = sources
        self._rules = rules
        self._pace = pace
        self._segment_bytes = segment_bytes

    def run(self) -> None:
        super().run()
        if self.error is not None:
            _discard(self._directory)

    def _do(self) -> None:
        for source in self._sources:
            if self.taken and not self._fits(source):
                break
            self._clean(source)
            self.taken += 1
        first = self._sources[0]
        self.is_unchanged = self.taken == 1 and self.output.is_copy_of(first.size_bytes)
        if not self.is_unchanged:
            self.output.finish()

    def _fits(self, source: Source) -> bool:
        """Whether all of the source would have room: what it will take is not known before."""
        return (
            self.taken < _SOURCES_MAX
            and self.output.size_bytes + source.size_bytes <= self._segment_bytes
            and source.next_offset - self._sources[0].first_offset <= SPAN_MAX
        )

    def _clean(self, source: Source) -> None:
        file = self._directory.open(source.stem + LOG_SUFFIX)
        for position, header, batch in read_batches(file, source, self._pace):
            kept = self._rules.apply(header, batch)
            if kept is None:
                self.output.drop(header)
            elif kept is batch:
                self.output.copy(header, file, position)
            else:
                self.output.write(kept)


class Output:
    """The file that a compaction writes, and its index. Stretches that stay as they are are copied
    late, so that of a segment without a change nothing is written."""

    def __init__(
        self, directory: Directory, first_offset: int, interval_bytes: int, pace: Pace
    ) -> None:
        self.index = SegmentIndex()
        self.size_bytes = 0
        self._directory = directory
        self._first_offset = first_offset
        self._interval_bytes = interval_bytes
        self._pace = pace
        self._file: File | None = None
        # A stretch of an old file, start and end.
        self._pending: tuple[File, int, int] | None = None
        self._dropped: BatchHeader | None = None

    def copy(self, header: BatchHeader, file: File, position: int) -> None:
        """The batch at the position of the old file stays as it is."""
        end = position + header.length
        if self._pending is not None and self._pending[0] is file and self._pending[2] == position:
            self._pending = file, self._pending[1], end
        else:
            self._write_pending()
            self._pending = file, position, end
        self._add(header)

    def write(self, batch: Buffer) -> None:
        """This stays of a batch."""
        self._write_pending()
        self._opened().append([batch])
        self._add(read_header(batch))

    def drop(self, header: BatchHeader) -> None:
        """Nothing stays of the batch, unless it turns out to be the last: a segment ends with the
        batch that its name says, or nobody could tell whether its end is missing."""
        self._dropped = header

    def is_copy_of(self, size_bytes: int) -> bool:
        """Whether it is the first old file as it was, of that size."""
        if self._file is not None or self._dropped is not None or self._pending is None:
            return False
        return self._pending[1:] == (0, size_bytes)

    def finish(self) -> None:
        """Make it durable; not its name."""
        if self._dropped is not None:
            self.write(empty_batch(self._dropped))
        self._write_pending()
        file = self._opened()
        file.flush()
        file.close()

    def _add(self, header: BatchHeader) -> None:
        self.index.add(
            header.base_offset - self._first_offset,
            self.size_bytes,
            header.max_timestamp_ms,
            header.term,
            self._interval_bytes,
        )
        self.size_bytes += header.length
        self._dropped = None

    def _write_pending(self) -> None:
        if self._pending is None:
            return
        source, position, end = self._pending
        self._pending = None
        file = self._opened()
        while position < end:
            chunk = source.read_at(position, min(_CHUNK_BYTES, end - position))
            if not chunk:
                raise corrupt(source.path, position, "it was cut by somebody else")
            file.append([chunk])
            position += len(chunk)
            self._pace.check()
            self._pace.breathe()

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._directory.open(CLEANED_NAME, create=True)
            self._file.truncate(0)
        return self._file


class SwapJob(Job):
    """Puts the new file in the place of the old ones, which the log holds open meanwhile."""

    def __init__(self, directory: Directory, old: Sequence[Source], output: Output) -> None:
        super().__init__(directory)
        # Whether the old files are out of use; if there is an error too, nobody knows for how long.
        self.is_renamed = False
        self._old = old
        self._stem = sealed_stem(old[0].first_offset, old[-1].next_offset)
        self._index = output.index
        self._size_bytes = output.size_bytes

    def _do(self) -> None:
        directory = self._directory
        try:
            if len(self._old) == 1:
                self._remove_index(self._stem)
                directory.flush()
            directory.rename(CLEANED_NAME, self._stem + LOG_SUFFIX)
            self.is_renamed = True
        finally:
            if not self.is_renamed:
                _discard(directory)
        directory.flush()
        for source in self._old:
            if source.stem != self._stem:
                directory.remove(source.stem + LOG_SUFFIX)
                self._remove_index(source.stem)
        try:
            write_index(directory, self._stem, self._index, self._size_bytes, flush=True)
        except OSError as error:
            # It can be made from the log again.
            logger.warning(
                "The index of %s/%s was not written: %s", directory.path, self._stem, error
            )

    def _remove_index(self, stem: str) -> None:
        for suffix in (OFFSET_SUFFIX, TIME_SUFFIX):
            remove_if_there(self._directory, stem + suffix)


class DiscardingJob(Job):
    """Throws away a new file that is not wanted any more."""

    def _do(self) -> None:
        _discard(self._directory)


def read_batches(
    file: File, source: Source, pace: Pace
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every batch, checked whole; CorruptLog where one is damaged.

    What is read here is written again with a right checksum, so nothing wrong may slip through.
    """
    end = source.size_bytes
    offset = source.first_offset
    position = 0
    wanted = _CHUNK_BYTES
    while position < end:
        chunk = memoryview(file.read_at(position, min(wanted, end - position)))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            (length,) = _LENGTH.unpack_from(chunk, at + _LENGTH_POSITION)
            length += LENGTH_PREFIX_BYTES
            if at + length > len(chunk):
                break
            pace.check()
            pace.breathe()
            header = _checked(file.path, position, chunk[at : at + length])
            if header.base_offset < offset or header.next_offset > source.next_offset:
                reason = f"the batch has offset {header.base_offset}, after {offset - 1}"
                raise corrupt(file.path, position, reason)
            yield position, header, chunk[at : at + length]
            offset = header.next_offset
            at += length
            position += length
        else:
            length = HEADER_BYTES
        # Not whole in what was read: read from its beginning, and at least as much as it needs.
        if at == 0 and not wanted < length <= min(BATCH_BYTES_MAX, end - position):
            raise corrupt(file.path, position, "there is no whole batch")
        wanted = max(_CHUNK_BYTES, min(length, BATCH_BYTES_MAX))
    if offset != source.next_offset:
        raise corrupt(file.path, end, f"it ends before offset {offset}, not {source.next_offset}")


def _checked(path: str, position: int, batch: memoryview) -> BatchHeader:
    try:
        return check_batch(batch)
    except BatchError as error:
        raise corrupt(path, position, f"the batch cannot be read ({error})") from error


def _discard(directory: Directory) -> None:
    try:
        remove_if_there(directory, CLEANED_NAME)
    except OSError as error:
        # The next compaction writes over it, the next recovery removes it.
        logger.warning("%s/%s is not removed yet: %s", directory.path, CLEANED_NAME, error)
