"""A staged batch as a record of `__staged`: the key says whose it is, the value is the batch.

Nothing is decoded: the inner batch stays the bytes it came as. The invariant: what `unwrap` gives
is what `wrap` was given, and bytes that are no staged batch are CorruptLog.

    record batch header, 61 bytes | record: length, 0, 0, 0 | key: length, JSON | value: length, …
"""

from __future__ import annotations

from typing import Final

from penstock.coordination.staging.records import (
    STAGED_KEY_BYTES_MAX,
    STAGED_TOPIC,
    StagedBatch,
    decode_staged,
    encode_staged,
)
from penstock.model.errors import BatchError, CorruptLog, InvalidBatch
from penstock.records.header import (
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TERM,
    BatchHeader,
    check_batch,
    read_header,
    write_header,
)
from penstock.records.varint import read_varint, varint

# The header, the key, and the handful of numbers between them.
STAGED_HEAD_BYTES: Final = HEADER_BYTES + 32 + STAGED_KEY_BYTES_MAX
NO_VALUE: Final = -1
# No attributes, no time and no offset beyond the batch's own.
_PLAIN: Final = b"\0\0\0"
_HEADER: Final = BatchHeader(
    base_offset=0,
    length=0,
    term=NO_TERM,
    attributes=0,
    last_offset_delta=0,
    base_timestamp_ms=0,
    max_timestamp_ms=0,
    producer_id=NO_PRODUCER_ID,
    producer_epoch=NO_PRODUCER_EPOCH,
    base_sequence=NO_SEQUENCE,
    record_count=1,
    crc=0,
)


def wrap(staged: StagedBatch, batch: memoryview | None, now_ms: int) -> memoryview:
    """The record batch that keeps a staged batch, or without one a mark. By hand, so that the
    bytes of a large batch are copied once."""
    key = encode_staged(staged)
    length = NO_VALUE if batch is None else len(batch)
    # At the end, no headers.
    fields = _PLAIN + varint(len(key)) + key + varint(length)
    value = b"" if batch is None else batch
    record_length = varint(len(fields) + len(value) + 1)
    wrapped = bytearray().join((bytes(HEADER_BYTES), record_length, fields, value, b"\0"))
    write_header(wrapped, _HEADER._replace(base_timestamp_ms=now_ms, max_timestamp_ms=now_ms))
    return memoryview(wrapped)


def read_key(batch: bytes | memoryview, position: int = 0) -> tuple[BatchHeader, StagedBatch]:
    """Of the batch at the position, of which the first STAGED_HEAD_BYTES are enough."""
    try:
        header = read_header(batch, position)
        start, end = find_first_key(batch, position)
    except (BatchError, IndexError) as error:
        raise _corrupt(error) from error
    return header, decode_staged(bytes(batch[start:end]))


def unwrap(batch: memoryview, position: int = 0) -> tuple[int, StagedBatch, bytearray]:
    """Where the next one begins, whose batch it is, and the inner batch, to be changed at will."""
    try:
        header = check_batch(batch, position)
        start, end = find_first_key(batch, position)
        length, value_start = read_varint(batch, end)
        end_position = position + header.length
        # One record, whose value is followed by its count of headers, which is none.
        if header.record_count != 1 or length < 0 or value_start + length != end_position - 1:
            raise CorruptLog(f"A record of {STAGED_TOPIC} at offset {header.base_offset} is none.")
    except (BatchError, IndexError) as error:
        raise _corrupt(error) from error
    staged = decode_staged(bytes(batch[start:end]))
    return end_position, staged, bytearray(batch[value_start : end_position - 1])


def find_first_key(batch: bytes | memoryview, position: int = 0) -> tuple[int, int]:
    """Where the key of a batch's first record begins and ends. BatchError or IndexError if it is
    none of those that a broker writes, in which only later records are apart from the batch."""
    _, cursor = read_varint(batch, position + HEADER_BYTES)
    if bytes(batch[cursor : cursor + len(_PLAIN)]) != _PLAIN:
        raise InvalidBatch("The first record is not at the batch's own time and offset.")
    key_length, cursor = read_varint(batch, cursor + len(_PLAIN))
    if not 0 <= key_length <= STAGED_KEY_BYTES_MAX:
        raise InvalidBatch(f"The first record has a key of {key_length} bytes.")
    return cursor, cursor + key_length


def _corrupt(error: Exception) -> CorruptLog:
    return CorruptLog(f"A record of {STAGED_TOPIC} cannot be read: {error!r}.")
