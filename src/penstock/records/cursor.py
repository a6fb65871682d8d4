# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""The one place that parses records: a cursor that walks those of a batch.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._cursor`, whose C face for the other compiled modules is `_cursor.pxd`. What is
made of a record is theirs: `records.codec` makes messages, `records.column_decoder` columns.

The invariant: every length, count and delta inside a batch is hostile until checked. No byte
outside the batch is read and nothing is allocated by a number that the batch merely claims.

Compiled, `data` below is a C pointer; interpreted, it is the bytes themselves. Both are indexed
and sliced alike. Walking touches no object of Python's, so whoever only walks lets other threads
run meanwhile; an error is made with the interpreter held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cython

from penstock.model.errors import CorruptBatch, InvalidBatch
from penstock.model.limits import DECOMPRESSED_BYTES_MAX
from penstock.records.compression import decompress
from penstock.records.header import HEADER_BYTES, BatchHeader, Buffer, check_batch

if cython.compiled:
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER

# Declared, so that they are C numbers when compiled.
_VARINT_BYTES_MAX = cython.declare(cython.int, 5)
_VARLONG_BYTES_MAX = cython.declare(cython.int, 10)
# The lengths of its name and its value: a byte each.
_HEADER_BYTES_MIN = cython.declare(cython.longlong, 2)
# Half of what fits in 64 bits, so that the sum of a time and a difference always does.
_TIMESTAMP_MS_MAX = cython.declare(cython.longlong, 1 << 62)
# In a record, where nobody says otherwise: what its count can say.
_HEADERS_MAX = cython.declare(cython.longlong, (1 << 31) - 1)


@cython.final
@cython.cclass
class Cursor:
    """Walks the records of one batch. After each `advance` the fields describe one record."""

    header: object  # the batch's
    base_offset: cython.longlong
    last_offset_delta: cython.longlong
    base_timestamp_ms: cython.longlong
    append_timestamp_ms: cython.longlong
    is_append_time: cython.bint
    owner: object  # keeps what `data` points into
    data: cython.p_uchar
    position: cython.Py_ssize_t
    end: cython.Py_ssize_t
    records_left: cython.longlong
    headers_max: cython.longlong  # of one record
    # One record. A length of -1 stands for null.
    record_end: cython.Py_ssize_t
    offset_delta: cython.longlong
    offset: cython.longlong
    timestamp_ms: cython.longlong
    key_position: cython.Py_ssize_t
    key_length: cython.longlong
    value_position: cython.Py_ssize_t
    value_length: cython.longlong
    # One header of the record, after each `next_header`.
    headers_left: cython.longlong
    name_position: cython.Py_ssize_t
    name_length: cython.longlong
    content_position: cython.Py_ssize_t
    content_length: cython.longlong

    def __init__(
        self, header: BatchHeader, records: Buffer, headers_max: int = _HEADERS_MAX
    ) -> None:
        self.header = header
        self.base_offset = header.base_offset
        self.last_offset_delta = header.last_offset_delta
        self.base_timestamp_ms = header.base_timestamp_ms
        self.append_timestamp_ms = header.max_timestamp_ms
        self.is_append_time = header.is_append_time
        # Interpreted, slices of bytes are bytes, as slices of a C pointer are.
        self.owner = memoryview(records) if cython.compiled else bytes(records)
        self.data = address(self.owner)
        self.position = 0
        self.end = len(records)
        self.records_left = header.record_count
        self.headers_max = headers_max
        self.offset_delta = -1
        if not -_TIMESTAMP_MS_MAX <= self.base_timestamp_ms <= _TIMESTAMP_MS_MAX:
            raise self.problem(f"its base timestamp is {self.base_timestamp_ms} ms")

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def advance(self) -> cython.bint:  # noqa: C901 - a record, field after field
        """Go to the next record; False after the last, which must be where the batch ends."""
        if self.records_left == 0:
            if self.position != self.end:
                with cython.gil:
                    raise self.problem(f"{self.end - self.position} bytes follow its last record")
            return False
        self.records_left -= 1
        length: cython.longlong = self.length(self.end)
        if length < 0:
            with cython.gil:
                raise self.problem("a record has no length")
        self.record_end = self.position + length
        self.position += 1  # the record's attributes: none are defined
        delta_ms: cython.longlong = self.varint(_VARLONG_BYTES_MAX)
        if not -_TIMESTAMP_MS_MAX <= delta_ms <= _TIMESTAMP_MS_MAX:
            with cython.gil:
                raise self.problem(f"a timestamp delta is {delta_ms} ms")
        if self.is_append_time:
            self.timestamp_ms = self.append_timestamp_ms
        else:
            self.timestamp_ms = self.base_timestamp_ms + delta_ms
        offset_delta: cython.longlong = self.varint(_VARINT_BYTES_MAX)
        if not self.offset_delta < offset_delta <= self.last_offset_delta:
            with cython.gil:
                raise self.problem(f"offset delta {offset_delta} follows {self.offset_delta}")
        self.offset_delta = offset_delta
        self.offset = self.base_offset + offset_delta
        self.key_length = self.length(self.end)
        self.key_position = self.position
        if self.key_length > 0:
            self.position += self.key_length
        self.value_length = self.length(self.end)
        self.value_position = self.position
        if self.value_length > 0:
            self.position += self.value_length
        self.headers_left = self.varint(_VARINT_BYTES_MAX)
        if self.headers_left == 0:
            if self.position != self.record_end:
                with cython.gil:
                    raise self.problem(f"a record of {length} bytes does not end where it says")
        elif not 0 < self.headers_left * _HEADER_BYTES_MIN <= self.record_end - self.position:
            with cython.gil:
                raise self.problem(f"a record of {length} bytes has {self.headers_left} headers")
        elif self.headers_left > self.headers_max:
            with cython.gil:
                raise self.problem(
                    f"a record has {self.headers_left} headers, and {self.headers_max} are the most"
                )
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def next_header(self) -> cython.bint:
        """Go to the record's next header; False after the last, which must be where it ends."""
        if self.headers_left == 0:
            if self.position != self.record_end:
                with cython.gil:
                    raise self.problem("a record's headers do not end where it does")
            return False
        self.headers_left -= 1
        # Within the record, not only the batch: who takes the headers has room for that much.
        self.name_length = self.length(self.record_end)
        if self.name_length < 0:
            with cython.gil:
                raise self.problem("a header has no name")
        self.name_position = self.position
        self.position += self.name_length
        self.content_length = self.length(self.record_end)
        self.content_position = self.position
        if self.content_length > 0:
            self.position += self.content_length
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-1, check=False)
    def skip_headers(self) -> cython.bint:
        """Go to the end of the record past headers that nobody wants, which must be sound too."""
        while self.next_header():
            pass
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-2, check=False)
    def length(self, end: cython.Py_ssize_t) -> cython.longlong:
        """A length, or -1 for null; that many bytes are there before the end given."""
        length: cython.longlong = self.varint(_VARINT_BYTES_MAX)
        if length < -1 or length > end - self.position:
            with cython.gil:
                raise self.problem(f"something says it has {length} bytes")
        return length

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(-4611686018427387905, check=True)
    def varint(self, bytes_max: cython.int) -> cython.longlong:
        """A zigzag integer as in Protocol Buffers."""
        if self.position >= self.end:
            with cython.gil:
                raise self.problem("it ends within a record")
        byte: cython.longlong = self.data[self.position]
        if byte >= 0x80:
            return self.long_varint(bytes_max)
        self.position += 1
        return (byte >> 1) ^ -(byte & 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(-4611686018427387905, check=True)
    def long_varint(self, bytes_max: cython.int) -> cython.longlong:
        number: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            if self.position >= self.end:
                with cython.gil:
                    raise self.problem("it ends within a number")
            if shift == 7 * bytes_max:
                with cython.gil:
                    raise self.problem(f"a number has more than {bytes_max} bytes")
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        # The last byte of the longest form has room for more bits than the number has.
        if (shift == 35 and bytes_max == 5 and byte > 0x0F) or (shift == 70 and byte > 0x01):
            with cython.gil:
                raise self.problem(f"a number of {bytes_max} bytes is out of range")
        half: cython.longlong = number >> 1
        sign: cython.longlong = number & 1
        return half ^ -sign

    @cython.cfunc
    def problem(self, what: str) -> object:
        """The error to raise. The checksum was right, so the producer wrote it this way."""
        return InvalidBatch(
            f"The record batch at offset {self.base_offset} is malformed near byte "
            f"{self.position} of its records: {what}; skip it by seeking beyond it."
        )


def cursors(
    payload: Buffer, start_offset: int, end_offset: int | None = None, *, keeps_all: bool = True
) -> Iterator[Cursor]:
    """A cursor for each data batch with offsets from the start to before the end, out of whole
    batches end to end: checked and decompressed. keeps_all: none is let go before the last."""
    cursor: Cursor
    view = memoryview(payload).cast("B")
    position = 0
    room = DECOMPRESSED_BYTES_MAX
    while position < len(view):
        header = check_batch(view, position)
        batch = view[position : position + header.length]
        position += header.length
        if header.is_control or header.last_offset < start_offset:
            continue
        if end_offset is not None and header.base_offset >= end_offset:
            continue
        cursor = open_batch(header, batch, room)
        if header.codec and keeps_all:
            room -= cursor.end  # many small bombs are one large one
        yield cursor


def open_batch(
    header: BatchHeader, batch: memoryview, room: int, headers_max: int = _HEADERS_MAX
) -> Cursor:
    """A cursor before the first record of a checked batch, which may take `room` decompressed.
    headers_max: more of them in one record make no sense."""
    try:
        records = decompress(header.codec, batch[HEADER_BYTES:], room)
        return Cursor(header, records, headers_max)
    except CorruptBatch as error:
        # Damage on the way would have shown in the checksum: trying again cannot help.
        raise InvalidBatch(
            f"The record batch at offset {header.base_offset} cannot be decompressed: {error}"
        ) from None


@cython.cfunc
def address(buffer: Any) -> cython.p_uchar:
    """Compiled, where the buffer's bytes are until it is resized; interpreted, the buffer."""
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(memoryview(buffer)).buf)
    else:  # noqa: RET505 - so that the compiler sees it is never reached
        return buffer
