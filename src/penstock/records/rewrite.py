"""A batch with some of its records taken out, as compaction leaves it (Kafka's format, KIP-534).

It does not choose the records: that is compaction's. The invariant: the records that stay keep
offset, timestamp, key, value and headers byte for byte; the batch keeps its offsets, its term, its
producer and sequences and its codec, so whoever reads or recovers the log finds all of it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from penstock.model.errors import InvalidBatch
from penstock.records import Message, decode_batch
from penstock.records.compression import compress
from penstock.records.header import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_TIMESTAMP_MS,
    TIMESTAMP_MS_MAX,
    BatchHeader,
    Buffer,
    write_header,
)
from penstock.records.plain import plain_batch
from penstock.records.varint import read_varint, varint

# The base timestamp is the time from which on tombstones of the batch may go (KIP-534).
DELETE_HORIZON_FLAG: Final = 0x40


class OpenedBatch(NamedTuple):
    """A batch with its records decompressed and found sound; their headers are in `records` alone.
    A tuple: one per compacted batch."""

    header: BatchHeader
    records: memoryview
    messages: list[Message]


def open_batch(header: BatchHeader, batch: memoryview, bytes_max: int) -> OpenedBatch:
    """The records of a checked batch; InvalidBatch if they make no sense, or too much of it."""
    plain = plain_batch(header, batch, bytes_max)
    messages = decode_batch(plain.header, plain.batch, bytes_max, include_headers=False)
    return OpenedBatch(header, plain.records, messages)


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """From when on the tombstones of the batch may go; None if that was not set yet."""
    return header.base_timestamp_ms if header.attributes & DELETE_HORIZON_FLAG else None


def keep_records(
    opened: OpenedBatch, kept: Sequence[int], horizon_ms: int | None = None
) -> bytearray:
    """The batch with the records of these indexes, which rise; with none, `empty_batch` is meant.

    With a horizon it becomes the base timestamp, and the deltas lead to the same times from there:
    InvalidBatch if one of these is too far away.
    """
    assert kept, "a batch without records is an empty_batch"
    header, records, messages = opened
    spans = _spans(records, len(messages))
    if horizon_ms is None:
        pieces: list[bytes | memoryview] = [
            records[start:end] for start, end in _joined(spans, kept)
        ]
        changed = header
    else:
        shift_ms = header.base_timestamp_ms - horizon_ms
        pieces = [_shifted(records, spans[index][0], shift_ms) for index in kept]
        changed = header._replace(
            attributes=header.attributes | DELETE_HORIZON_FLAG, base_timestamp_ms=horizon_ms
        )
    newest_ms = max(messages[index].timestamp_ms for index in kept)
    return join_records(changed, pieces, len(kept), newest_ms)


def join_records(
    header: BatchHeader,
    pieces: Iterable[Buffer],
    record_count: int,
    newest_ms: int,
    level: int | None = None,
) -> bytearray:
    """A batch of these records of another one, whose header is given. newest_ms: the largest of
    their timestamps. level: of the compression, where it has one."""
    if not header.is_append_time:
        header = header._replace(max_timestamp_ms=newest_ms)
    batch = bytearray(HEADER_BYTES)
    batch += compress(header.codec, b"".join(pieces), level)
    write_header(batch, header._replace(record_count=record_count))
    return batch


def empty_batch(header: BatchHeader) -> bytearray:
    """What is left of a batch without any record: where it was, and of which producer."""
    batch = bytearray(HEADER_BYTES)
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG)
    empty = header._replace(
        attributes=attributes, base_timestamp_ms=NO_TIMESTAMP_MS, record_count=0
    )
    write_header(batch, empty)
    return batch


def _spans(records: memoryview, count: int) -> list[tuple[int, int]]:
    """Where each record begins and ends. The decoder has checked every length on the way."""
    spans = []
    position = 0
    for _ in range(count):
        length, body = read_varint(records, position)
        spans.append((position, body + length))
        position = body + length
    return spans


def _joined(spans: list[tuple[int, int]], kept: Sequence[int]) -> list[tuple[int, int]]:
    """The stretches that the kept records make; neighbours are one stretch."""
    joined = [spans[kept[0]]]
    for index in kept[1:]:
        start, end = spans[index]
        if start == joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined


def _shifted(records: memoryview, position: int, shift_ms: int) -> bytes:
    """The record at the position with this much added to its timestamp delta."""
    length, body = read_varint(records, position)
    # The record's attributes are one byte; the delta follows.
    delta_ms, rest = read_varint(records, body + 1)
    delta_ms += shift_ms
    if not -TIMESTAMP_MS_MAX <= delta_ms <= TIMESTAMP_MS_MAX:
        # No reader would take it.
        raise InvalidBatch(f"A timestamp is {delta_ms} ms away from the horizon of its batch.")
    rest_of_it = records[rest : body + length]
    shifted = b"".join((records[body : body + 1], varint(delta_ms), rest_of_it))
    return varint(len(shifted)) + shifted
