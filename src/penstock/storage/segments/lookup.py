"""Finding records by time and batches by term: indexes, then headers, then few batches opened.

Not the index itself. The invariants: what is found lies from the start offset on and before the
limit; the first record at a time is the first in offset order whose timestamp is not before the
asked one (timestamps need not be in order); terms never go back from one batch to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from penstock.model.errors import BatchError
from penstock.model.limits import MIB
from penstock.records import Message, decode_batch
from penstock.records.header import BatchHeader, check_batch
from penstock.storage.segments.index import NO_TIMESTAMP
from penstock.storage.segments.scan import corrupt
from penstock.storage.segments.segment import Segment

# What a batch may open into here: enough for any that a client of ours makes.
_OPENED_BYTES_MAX: Final = 32 * MIB
# And so many records, in some hundredths of a second.
_RECORDS_OPENED_MAX: Final = 100_000
# A batch may say a newer time than any of its records has. So many are opened to look; then what
# the batches say of themselves is taken for an answer, or one call could open them all.
_BATCHES_OPENED_MAX: Final = 8


def first_at_time(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, limit_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after the time, or None before the limit.

    Of a batch that cannot be opened within bounds the first record is named.
    """
    candidates = _batches_as_new(segments, timestamp_ms, start_offset, limit_offset)
    for opened, (segment, position, header) in enumerate(candidates):
        messages = _open(segment, position, header) if opened < _BATCHES_OPENED_MAX else None
        if messages is None:
            return max(header.base_offset, start_offset), header.max_timestamp_ms
        for message in messages:
            if message.timestamp_ms >= timestamp_ms and message.offset >= start_offset:
                return message.offset, message.timestamp_ms
    return None


def _batches_as_new(
    segments: Sequence[Segment], timestamp_ms: int, start_offset: int, limit_offset: int
) -> Iterator[tuple[Segment, int, BatchHeader]]:
    """The batches of records between the offsets that say they are as new as the time."""
    for segment in segments:
        if segment.first_offset >= limit_offset:
            return
        if segment.max_timestamp_ms < timestamp_ms or segment.next_offset <= start_offset:
            continue
        segment.used = True
        for position, header in segment.walk(_place(segment, timestamp_ms, start_offset), None):
            if header.base_offset >= limit_offset:
                return
            is_as_new = header.max_timestamp_ms >= timestamp_ms
            if is_as_new and header.next_offset > start_offset and _has_records(header):
                yield segment, position, header


def _has_records(header: BatchHeader) -> bool:
    """That a consumer gets to see."""
    return not header.is_control and header.record_count > 0


def newest_record(
    segments: Sequence[Segment], start_offset: int, limit_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record with the newest timestamp, None if none has one.

    The batch is found by what batches say of themselves, and only that one is opened, besides one
    that begins before the start; where it cannot be within bounds, or holds no record, its first
    offset is named.
    """
    newest_ms, newest_in, newest = NO_TIMESTAMP, None, None
    for segment in segments:
        if segment.first_offset >= limit_offset:
            break
        if segment.first_offset < start_offset < segment.next_offset:
            position, header = next(segment.walk(segment.position_of(start_offset), None))
            if header.base_offset < start_offset:
                # What it says of itself may be of a record that was deleted.
                newest = _newest_of(segment, position, header, start_offset)
                newest_ms = NO_TIMESTAMP if newest is None else newest[1]
                start_offset = header.next_offset
        if segment.next_offset <= start_offset:
            continue
        timestamp_ms = _newest_within(segment, start_offset, limit_offset)
        if timestamp_ms > newest_ms:
            newest_ms, newest_in = timestamp_ms, segment
    if newest_in is None:
        return newest
    position, header = _first_as_new(newest_in, newest_ms, start_offset)
    found = _newest_of(newest_in, position, header, start_offset)
    return found or (header.base_offset, header.max_timestamp_ms)


def end_of_term(segments: Sequence[Segment], term: int, end_offset: int) -> tuple[int, int]:
    """(term, offset): the largest term that is not after the asked one, or the asked one if there
    is none; and where the next larger term begins, or `end_offset`. As Kafka's
    OffsetForLeaderEpoch has it. Where compaction took the first batches of a term, it begins with
    what is left."""
    filled = [segment for segment in segments if segment.size_bytes]
    later = bisect_right(filled, term, key=lambda segment: _first_batch(segment).term)
    if later < len(filled):
        end_offset = _first_batch(filled[later]).base_offset
    if later == 0:
        return term, end_offset
    segment = filled[later - 1]
    segment.used = True
    index = segment.index
    place = bisect_right(index.terms, term)
    if place < len(index.terms):
        end_offset = segment.first_offset + index.term_offsets[place]
    return index.terms[place - 1], end_offset


def _place(segment: Segment, timestamp_ms: int, start_offset: int) -> int:
    """A position that no batch from the start on and as new as the time lies before."""
    index = segment.index
    # What was deleted need not be gone through: it may be most of the segment.
    deleted = index.floor(max(start_offset - segment.first_offset, 0))
    return max(index.floor_time(timestamp_ms), deleted)[1]


def _newest_within(segment: Segment, start_offset: int, limit_offset: int) -> int:
    """The newest timestamp of the segment's batches between, as they say it."""
    if start_offset <= segment.first_offset and limit_offset >= segment.next_offset:
        return segment.max_timestamp_ms
    segment.used = True
    index = segment.index
    begin = begin_known = 0
    end_known, newest_ms = segment.size_bytes, index.max_timestamp_ms
    older_ms = NO_TIMESTAMP
    if limit_offset < segment.next_offset:
        _, end_known = index.floor(limit_offset - segment.first_offset)
        newest_ms = index.newest_before(end_known)
    if segment.first_offset < start_offset < segment.next_offset:
        begin = segment.position_of(start_offset)
        begin_known, older_ms = index.ceiling_position(begin) or (segment.size_bytes, newest_ms)
    # The index counts what lies before the start as well: it tells only if newer ones came later.
    if begin and not (begin_known <= end_known and older_ms < newest_ms):
        begin_known, newest_ms = segment.size_bytes, NO_TIMESTAMP
    for start, end in ((begin, begin_known), (max(end_known, begin_known), segment.size_bytes)):
        for position, header in segment.walk(start, None):
            if position >= end or header.base_offset >= limit_offset:
                break
            newest_ms = max(newest_ms, header.max_timestamp_ms)
    return newest_ms


def _first_as_new(
    segment: Segment, timestamp_ms: int, start_offset: int
) -> tuple[int, BatchHeader]:
    """The first batch from the start on that says it is as new as the newest."""
    segment.used = True
    start = _place(segment, timestamp_ms, start_offset)
    for position, header in segment.walk(start, None):
        if header.max_timestamp_ms >= timestamp_ms and header.next_offset > start_offset:
            return position, header
    raise corrupt(segment.path, start, f"no batch is of {timestamp_ms} ms, which its index names")


def _newest_of(
    segment: Segment, position: int, header: BatchHeader, start_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the batch's first record with the newest timestamp from the start on;
    as the batch says it if it cannot be opened within bounds; None if there is none."""
    messages = _open(segment, position, header)
    if messages is None:
        return max(header.base_offset, start_offset), header.max_timestamp_ms
    left = [message for message in messages if message.offset >= start_offset]
    if not left:
        return None
    newest = max(left, key=lambda message: message.timestamp_ms)
    return newest.offset, newest.timestamp_ms


def _first_batch(segment: Segment) -> BatchHeader:
    """Of a segment that is not empty."""
    segment.used = True
    _, header = next(segment.walk(0, segment.first_offset))
    return header


def _open(segment: Segment, position: int, header: BatchHeader) -> list[Message] | None:
    """The records of the batch, or None if they cannot be had within bounds."""
    if header.record_count > _RECORDS_OPENED_MAX:
        return None
    batch = memoryview(segment.file.read_at(position, header.length))
    try:
        check_batch(batch)
    except BatchError as error:
        raise corrupt(segment.path, position, f"the batch cannot be read ({error})") from error
    try:
        return decode_batch(header, batch, _OPENED_BYTES_MAX, include_headers=False)
    except BatchError:
        return None
