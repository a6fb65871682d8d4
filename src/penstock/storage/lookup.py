"""Finding the first message at or after a time: indexes, then headers, then one batch opened.

Not the index itself. The invariant: the answer is the first record in offset order, before the
limit, whose timestamp is not before the asked one; timestamps need not be in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.model.errors import BatchError
from penstock.model.limits import MIB
from penstock.records import Message, decode_batch
from penstock.records.header import BatchHeader, check_batch
from penstock.storage.scan import corrupt
from penstock.storage.segment import Segment

# What a batch may open into here: enough for any that a client of ours makes.
_OPENED_BYTES_MAX: Final = 32 * MIB
# A batch may say a newer time than any of its records has. So many are opened to look; then what
# the batches say of themselves is taken for an answer, or one call could open them all.
_BATCHES_OPENED_MAX: Final = 8


def first_at_time(
    segments: Iterable[Segment], timestamp_ms: int, limit_offset: int
) -> tuple[int, int] | None:
    """(offset, timestamp) of the first record at or after the time, or None before the limit.

    Of a batch that cannot be opened within bounds the first record is named.
    """
    opened = 0
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
            messages = None
            if opened < _BATCHES_OPENED_MAX:
                opened += 1
                messages = _open(segment, position, header)
            if messages is None:
                return header.base_offset, header.max_timestamp_ms
            for message in messages:
                if message.timestamp_ms >= timestamp_ms:
                    return message.offset, message.timestamp_ms
    return None


def _open(segment: Segment, position: int, header: BatchHeader) -> list[Message] | None:
    """The records of the batch, or None if they cannot be had within bounds."""
    batch = memoryview(segment.file.read_at(position, header.length))
    try:
        check_batch(batch)
    except BatchError as error:
        raise corrupt(segment.path, position, f"the batch cannot be read ({error})") from error
    try:
        return decode_batch(header, batch, _OPENED_BYTES_MAX)
    except BatchError:
        return None
