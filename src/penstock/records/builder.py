# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Records into batches, and keys to partitions: the loops of a producer.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._builder`, whose C face for `records.column_encoder` is `_builder.pxd`. Import
from `penstock.records`, which picks. Not the accumulator: when a batch is due, and for which
partition, is the client's business.

The invariant: a batch that `build` returns passes `header.check_produced` of any broker, and has
no more than `bytes_max` bytes unless its only record has.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import cython

from penstock.model.errors import BatchTooLarge, InvalidRequest
from penstock.records.compression import compress
from penstock.records.header import (
    CONTROL_FLAG,
    HEADER_BYTES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TERM,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    write_header,
)

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_Resize
    from cython.cimports.libc.string import memcpy

_CONTROL_KEY = struct.Struct(">hh")
_NO_HEADERS = b"\x00"  # their number

# Declared, so that they are C numbers when compiled.
# A batch's length is an int32; a little of it is for the header.
_RECORD_BYTES_MAX = cython.declare(cython.longlong, 0x7FFFFFFF - 128)
# Half of what fits in 64 bits, so that the difference of two times, one of them -1, always does.
_TIMESTAMP_MS_MAX = cython.declare(cython.longlong, (1 << 62) - 1)
# The first buffer of a builder: small, because an idle partition may have one too.
_CAPACITY_BYTES_MIN = cython.declare(cython.longlong, 1024)


@cython.final
@cython.cclass
class BatchBuilder:
    """Collects records into one batch of at most `bytes_max` bytes before compression."""

    _bytes_max: cython.longlong
    _codec: cython.int
    _buffer: bytearray
    _data: cython.p_uchar
    _capacity: cython.longlong
    _position: cython.longlong
    _record_count: cython.longlong
    _base_timestamp_ms: cython.longlong
    _max_timestamp_ms: cython.longlong

    def __init__(self, bytes_max: int, codec: int = 0) -> None:
        self._bytes_max = bytes_max
        self._codec = codec
        self._record_count = 0
        self._base_timestamp_ms = self._max_timestamp_ms = -1
        self._position = HEADER_BYTES
        self._capacity = _CAPACITY_BYTES_MIN
        self._buffer = bytearray(_CAPACITY_BYTES_MIN)
        self._data = self._buffer

    @property
    def record_count(self) -> int:
        return self._record_count

    @property
    def size_bytes(self) -> int:
        """Bytes of the batch so far, header included, before compression."""
        return self._position

    @property
    def max_timestamp_ms(self) -> int:
        """The latest time in the batch, -1 while it is empty."""
        return self._max_timestamp_ms

    def widen(self, bytes_max: int) -> None:
        """Let the batch become larger than was said at first."""
        self._bytes_max = bytes_max

    def append(
        self,
        timestamp_ms: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]] | None = None,
    ) -> int:
        """Add a record. Its index in the batch, or -1 if the batch has no room for it.

        The first record always fits: a message too large for any batch is the caller's to refuse.
        """
        timestamp: cython.longlong
        try:
            timestamp = timestamp_ms
        except OverflowError:  # compiled, beyond 64 bits
            raise _wrong_timestamp(timestamp_ms) from None
        key_bytes: bytes | None = _as_bytes(key)
        value_bytes: bytes | None = _as_bytes(value)
        headers_bytes: bytes = _encode_headers(headers) if headers else _NO_HEADERS
        return self.put_record(
            timestamp,
            b"" if key_bytes is None else key_bytes,
            -1 if key_bytes is None else len(key_bytes),
            b"" if value_bytes is None else value_bytes,
            -1 if value_bytes is None else len(value_bytes),
            headers_bytes,
            len(headers_bytes),
        )

    @cython.cfunc
    def put_record(
        self,
        timestamp: cython.longlong,
        key: cython.p_uchar,
        key_length: cython.longlong,
        value: cython.p_uchar,
        value_length: cython.longlong,
        headers: cython.p_uchar,
        headers_length: cython.longlong,
    ) -> cython.longlong:
        """The one place that writes records. What `append` says, for fields of so many bytes, or of
        a length of -1 for null, and headers that are encoded: their number at least."""
        if not -1 <= timestamp <= _TIMESTAMP_MS_MAX:
            raise _wrong_timestamp(timestamp)
        index: cython.longlong = self._record_count
        if index == 0:
            self._base_timestamp_ms = timestamp
        delta_ms: cython.longlong = timestamp - self._base_timestamp_ms
        length: cython.longlong = (
            1
            + varint_size(delta_ms)
            + varint_size(index)
            + _field_size(key_length)
            + _field_size(value_length)
            + headers_length
        )
        size: cython.longlong = varint_size(length) + length
        if index and self._position + size > self._bytes_max:
            return -1
        if size > _RECORD_BYTES_MAX:
            raise BatchTooLarge(f"A record of {size} bytes fits in no batch: send less at once.")
        if self._position + size > self._capacity:
            self._grow(size)
        data: cython.p_uchar = self._data
        position: cython.Py_ssize_t = put_varint(data, self._position, length)
        data[position] = 0  # the record's attributes: none are defined
        position = put_varint(data, position + 1, delta_ms)
        position = put_varint(data, position, index)
        position = put_field(data, position, key, key_length)
        position = put_field(data, position, value, value_length)
        self._position = put_bytes(data, position, headers, headers_length)
        if timestamp > self._max_timestamp_ms:
            self._max_timestamp_ms = timestamp
        self._record_count = index + 1
        return index

    def build(
        self,
        *,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
        control: bool = False,
        base_offset: int = 0,
    ) -> bytearray:
        """The batch, ready to be sent. Once: the builder gives its buffer away."""
        assert self._record_count > 0, "a batch has at least one record"
        assert self._capacity > 0, "a batch is built once"
        batch = self._buffer
        del batch[self._position :]
        self._buffer = bytearray()
        self._capacity = 0
        attributes = 0
        if self._codec:
            compressed = compress(self._codec, memoryview(batch)[HEADER_BYTES:])
            # What does not shrink is sent as it is: a batch must not outgrow its limit.
            if len(compressed) < len(batch) - HEADER_BYTES:
                batch[HEADER_BYTES:] = compressed
                attributes = self._codec
        if transactional:
            attributes |= TRANSACTIONAL_FLAG
        if control:
            attributes |= CONTROL_FLAG
        header = BatchHeader(
            base_offset=base_offset,
            length=len(batch),
            term=NO_TERM,
            attributes=attributes,
            last_offset_delta=self._record_count - 1,
            base_timestamp_ms=self._base_timestamp_ms,
            max_timestamp_ms=self._max_timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=self._record_count,
            crc=0,
        )
        write_header(batch, header)
        return batch

    @cython.cfunc
    def _grow(self, size: cython.longlong) -> cython.void:
        """Room for as many bytes more, and at least twice of what there was."""
        assert self._capacity > 0, "nothing is appended to a batch that was built"
        more: cython.longlong = max(self._capacity, size)
        if cython.compiled:
            PyByteArray_Resize(self._buffer, self._capacity + more)  # does not clear it
        else:
            self._buffer += bytes(more)
        self._capacity += more
        self._data = self._buffer


def build_batch(
    records: Iterable[tuple[Buffer | None, Buffer | None]],
    *,
    timestamp_ms: int = 0,
    codec: int = 0,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
) -> bytearray:
    """One batch of these pairs of key and value, all of one time, whatever its size."""
    builder = BatchBuilder(_RECORD_BYTES_MAX, codec)
    for key, value in records:
        builder.append(timestamp_ms, key, value)
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )


def control_batch(
    kind: int,
    value: Buffer,
    *,
    timestamp_ms: int,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    transactional: bool = False,
) -> bytearray:
    """A batch of one control record, which every client skips. Kafka's kinds are 0 abort,
    1 commit and 2 leader change; the key is a version and the kind (KIP-98)."""
    builder = BatchBuilder(_RECORD_BYTES_MAX)
    builder.append(timestamp_ms, _CONTROL_KEY.pack(0, kind), value)
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=transactional,
        control=True,
    )


def murmur2(key: Buffer) -> int:
    """Kafka's hash of a key, a signed 32-bit number as its `Utils.murmur2` has it. The partition
    is `(murmur2(key) & 0x7FFFFFFF) % partition_count`."""
    key_bytes: bytes = _as_bytes(key)
    return hash_key(key_bytes, len(key_bytes))


@cython.cfunc
def hash_key(data: cython.p_uchar, length: cython.Py_ssize_t) -> cython.longlong:
    """What `murmur2` says, of so many bytes."""
    multiplier: cython.ulonglong = 0x5BD1E995
    mask: cython.ulonglong = 0xFFFFFFFF
    number: cython.ulonglong = 0x9747B28C ^ length
    word: cython.ulonglong
    position: cython.Py_ssize_t = 0
    while position + 4 <= length:
        word = (
            data[position]
            | data[position + 1] << 8
            | data[position + 2] << 16
            | data[position + 3] << 24
        )
        word = (word * multiplier) & mask
        word = ((word ^ (word >> 24)) * multiplier) & mask
        number = ((number * multiplier) & mask) ^ word
        position += 4
    if position < length:
        shift: cython.int = 0
        while position < length:
            number ^= data[position] << shift
            position += 1
            shift += 8
        number = (number * multiplier) & mask
    number = ((number ^ (number >> 13)) * multiplier) & mask
    number ^= number >> 15
    signed: cython.longlong = number
    return signed - 0x100000000 if signed > 0x7FFFFFFF else signed


@cython.cfunc
def _as_bytes(field: Any) -> Any:
    if field is None or type(field) is bytes:
        return field
    return memoryview(field).tobytes()


def _wrong_timestamp(timestamp_ms: int) -> InvalidRequest:
    return InvalidRequest(
        f"A timestamp is {timestamp_ms} ms: give milliseconds since 1970, or -1 for none."
    )


@cython.cfunc
@cython.inline
def varint_size(value: cython.longlong) -> cython.longlong:
    number: cython.ulonglong = (value << 1) ^ (value >> 63)
    size: cython.longlong = 1
    while number >= 0x80:
        number >>= 7
        size += 1
    return size


@cython.cfunc
@cython.inline
def _field_size(length: cython.longlong) -> cython.longlong:
    return 1 if length < 0 else varint_size(length) + length


@cython.cfunc
@cython.inline
def put_varint(
    data: cython.p_uchar, position: cython.Py_ssize_t, value: cython.longlong
) -> cython.Py_ssize_t:
    """Write a zigzag integer as in Protocol Buffers; the position after it."""
    number: cython.ulonglong = (value << 1) ^ (value >> 63)
    while number >= 0x80:
        data[position] = (number & 0x7F) | 0x80
        position += 1
        number >>= 7
    data[position] = number
    return position + 1


@cython.cfunc
@cython.inline
def put_field(
    data: cython.p_uchar,
    position: cython.Py_ssize_t,
    field: cython.p_uchar,
    length: cython.longlong,
) -> cython.Py_ssize_t:
    """Write a field of so many bytes, or -1 for null, behind its length; the position after it."""
    position = put_varint(data, position, length)
    return position if length < 0 else put_bytes(data, position, field, length)


@cython.cfunc
@cython.inline
def put_bytes(
    data: cython.p_uchar,
    position: cython.Py_ssize_t,
    field: cython.p_uchar,
    length: cython.longlong,
) -> cython.Py_ssize_t:
    """Write so many bytes as they are; the position after them."""
    if cython.compiled:
        memcpy(data + position, field, length)
    else:
        data[position : position + length] = field
    return position + length


@cython.cfunc
def _encode_headers(headers: Sequence[tuple[str, Buffer | None]]) -> bytes:
    """Their number and each name and value, as they stand at the end of a record."""
    fields: list[bytes | None] = []
    size: cython.Py_ssize_t = varint_size(len(headers))
    for name, value in headers:
        for field in (name.encode(), _as_bytes(value)):
            fields.append(field)
            size += _field_size(-1 if field is None else len(field))
    encoded = bytearray(size)
    data: cython.p_uchar = encoded
    position: cython.Py_ssize_t = put_varint(data, 0, len(headers))
    for field in fields:
        content: bytes = b"" if field is None else field
        position = put_field(data, position, content, -1 if field is None else len(content))
    return bytes(encoded)
