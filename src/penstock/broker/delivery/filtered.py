"""Reading a partition through a filter: batches come without the messages that do not pass.

A batch is opened once, and only its records' keys and headers are looked at. One of which all
messages pass is handed on as the bytes it is; of one where none does nothing is left but that
`next_offset` is beyond it. Long work, in pieces, and what takes long in one go as jobs of a thread:
for `broker.turns.fair_turns`.

The invariants (R-DEL-12): every message from the asked offset to before `next_offset` was looked at
once, and those that pass are in the payload; and a batch is never put together again from bytes
whose checksum was wrong.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Final, NamedTuple, Protocol

from penstock.broker.turns.fair_turns import Pieces
from penstock.coordination.filter.filters import CompiledFilter
from penstock.model.errors import CorruptBatch, CorruptLog, InvalidBatch, OffsetOutOfRange
from penstock.model.ids import TopicPartition
from penstock.model.limits import FILTERED_BYTES_MAX, KIB, OPENED_BATCH_BYTES_MAX
from penstock.records import Selection
from penstock.records.header import BatchHeader, Buffer, check_batch
from penstock.records.rewrite import join_records

# Read of the log at once.
_READ_BYTES: Final = 256 * KIB
# A piece of work, in comparisons: about half a millisecond.
_PIECE_COST: Final = 5_000
# What a batch takes before its records, and how many bytes are read, checked and decompressed, or
# put together, in the time of one comparison.
_BATCH_COST: Final = 50
_BYTES_PER_COST: Final = 128
# What may be decompressed, or put together, between two pauses: about a millisecond of gzip; of
# batches that take more than the second, it is likely that they do not stay within the first.
_AT_ONCE_BYTES_MAX: Final = 256 * KIB
_AT_ONCE_COMPRESSED_BYTES_MAX: Final = 64 * KIB
# Beyond a level of 1, gzip takes longer than everything else here.
_COMPRESSION_LEVEL: Final = 1


class Stored(Protocol):
    """Bytes that lie somewhere: a `FileSlice`."""

    def read(self) -> bytes: ...


class Readable(Protocol):
    """What is read: a `Partition`."""

    name: TopicPartition
    is_open: bool

    def read(self, offset: int, max_bytes: int) -> Stored:
        """Whole batches from the one that holds the offset on."""
        ...


class FilteredPart(NamedTuple):
    """What was found. A tuple: one for each fetch."""

    payload: list[Buffer]
    """Whole batches, in their order."""
    next_offset: int
    message_count: int
    """Of those that pass; what is before the asked offset, in the same batch, is not counted."""


def filtered_read(
    partition: Readable,
    offset: int,
    max_bytes: int,
    compiled: CompiledFilter,
    messages_max: int = sys.maxsize,
) -> Pieces[FilteredPart]:
    """What passes, from the offset on: whole batches of at most `max_bytes` and `messages_max`
    together, but one if there is one before FILTERED_BYTES_MAX were looked at.

    OffsetOutOfRange, CorruptLog or InvalidBatch if there is no way on from the offset; one that
    comes up further on is left to the next read, which begins there.
    """
    reading = _Reading(partition, offset, max_bytes, compiled, messages_max)
    try:
        yield from reading.work()
    except (OffsetOutOfRange, CorruptLog, InvalidBatch):
        if reading.next_offset == offset:
            raise
    return FilteredPart(reading.payload, reading.next_offset, reading.message_count)


class _Reading:
    """One read under way."""

    __slots__ = (
        "_compiled",
        "_looked_bytes",
        "_max_bytes",
        "_messages_max",
        "_partition",
        "_payload_bytes",
        "_piece_left",
        "message_count",
        "next_offset",
        "payload",
    )

    def __init__(
        self,
        partition: Readable,
        offset: int,
        max_bytes: int,
        compiled: CompiledFilter,
        messages_max: int,
    ) -> None:
        self.payload: list[Buffer] = []
        self.message_count = 0
        self.next_offset = offset
        self._messages_max = messages_max
        self._partition = partition
        self._compiled = compiled
        self._max_bytes = max_bytes
        self._payload_bytes = 0
        self._looked_bytes = 0
        self._piece_left = _PIECE_COST

    def work(self) -> Pieces[None]:
        # It may be closed in a pause: then whoever asked looks for it again.
        while self._looked_bytes < FILTERED_BYTES_MAX and self._partition.is_open:
            stored = memoryview(self._partition.read(self.next_offset, _READ_BYTES).read())
            if not stored:
                return
            position = 0
            while position < len(stored) and self._looked_bytes < FILTERED_BYTES_MAX:
                self._piece_left -= _BATCH_COST
                if self._piece_left <= 0:
                    yield None
                    self._piece_left = _PIECE_COST
                header = self._check(stored, position)
                if self.payload and self._is_enough(header):
                    return
                batch = stored[position : position + header.length]
                if header.record_count and not header.is_control:
                    yield from self._look_at(header, batch)
                self._looked_bytes += header.length
                self.next_offset = max(self.next_offset, header.next_offset)
                position += header.length

    def _is_enough(self, header: BatchHeader) -> bool:
        """Whether the batch might be more than is wanted."""
        return (
            self._payload_bytes + header.length > self._max_bytes
            or self.message_count + header.record_count > self._messages_max
        )

    def _check(self, stored: memoryview, position: int) -> BatchHeader:
        try:
            return check_batch(stored, position)
        except CorruptBatch as error:
            raise CorruptLog(
                f"{self._partition.name} cannot be read on from offset {self.next_offset}: "
                f"{error} Run `penstock inspect` on the broker's data folder."
            ) from None

    def _look_at(self, header: BatchHeader, batch: memoryview) -> Pieces[None]:
        compiled = self._compiled
        selection = yield from self._opened(header, batch)
        # What a small batch decompresses to counts.
        self._looked_bytes += max(0, selection.size_bytes - header.length)
        self._piece_left -= selection.size_bytes // _BYTES_PER_COST
        is_more = True
        while is_more:
            if self._piece_left <= 0:
                yield None
                self._piece_left = _PIECE_COST
            records_max = max(1, self._piece_left // compiled.cost)
            is_more = selection.look(records_max)
            self._piece_left -= min(records_max, header.record_count) * compiled.cost
        if selection.kept_count:
            yield from self._keep(header, batch, selection)

    def _opened(self, header: BatchHeader, batch: memoryview) -> Pieces[Selection]:
        compiled = self._compiled

        def opened(bytes_max: int) -> Selection:
            return Selection(
                header,
                batch,
                bytes_max,
                start_offset,
                compiled.encoded_places,
                compiled.needs_key,
                compiled.test,
            )

        start_offset = self.next_offset
        if not header.codec:
            return opened(OPENED_BATCH_BYTES_MAX)
        if header.length <= _AT_ONCE_COMPRESSED_BYTES_MAX:
            try:
                return opened(_AT_ONCE_BYTES_MAX)
            except InvalidBatch:
                pass  # it is larger, or damaged, which is found once more
        selection: Selection = yield partial(opened, OPENED_BATCH_BYTES_MAX)
        self._piece_left = _PIECE_COST
        return selection

    def _keep(self, header: BatchHeader, batch: memoryview, selection: Selection) -> Pieces[None]:
        kept: Buffer = batch
        if not selection.is_whole:
            join = partial(
                join_records,
                header,
                selection.pieces(),
                selection.kept_count,
                selection.newest_ms,
                _COMPRESSION_LEVEL,
            )
            if selection.size_bytes <= _AT_ONCE_BYTES_MAX:
                kept = join()
            else:
                kept = yield join
                self._piece_left = _PIECE_COST
        self.payload.append(kept)
        self.message_count += selection.kept_count
        self._payload_bytes += len(kept)
        self._piece_left -= len(kept) // _BYTES_PER_COST
