"""Finding the first message at or after a time: indexes, then headers, then one batch opened.

Not the index itself. The invariant: the answer is the first record in offset order, before the
limit, whose timestamp is not before the asked one; timestamps need not be in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.model.errors import BatchError
from penstock.records import decode_messages
from penstock.storage.scan import corrupt
from penstock.storage.segment import Segment


def first_at_time(
    segments: Iterable[Segment], timestamp_ms: int, limit_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after the time, or None before the limit."""
    for segment in segments:
        if segment.first_offset >= limit_offset:
            return None
        if segment.max_timestamp_ms < timestamp_ms:
            continue
        segment.used = True
        offset, start = segment.index.floor_time(timestamp_ms)
        for position, header in segment.walk(start, segment.first_offset + offset):
            if header.base_offset >= limit_offset:
                return None
            if header.max_timestamp_ms < timestamp_ms or header.is_control:
                continue
            found = _first_in_batch(segment, position, header.length, timestamp_ms)
            if found is not None:
                return found
    return None


def _first_in_batch(
    segment: Segment, position: int, length: int, timestamp_ms: int
) -> tuple[int, int] | None:
    try:
        messages = decode_messages(segment.file.read_at(position, length), "", 0, 0)
    except BatchError as error:
        raise corrupt(segment.path, position, f"the batch cannot be read ({error})") from error
    for message in messages:
        if message.timestamp_ms >= timestamp_ms:
            return message.offset, message.timestamp_ms
    return None
