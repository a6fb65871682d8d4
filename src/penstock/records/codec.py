# mypy: disallow-untyped-decorators=False, warn-return-any=False
# ruff: noqa: SLF001 - messages are made here, field by field
"""Records out of batches, as messages or as columns: the loops of a consumer.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._codec`. Import from `penstock.records`, which picks. Headers of batches are
checked in `records.header`; writing is in `records.builder`.

The invariant: every length, count and delta inside a batch is hostile until checked. No byte
outside the batch is read and nothing is allocated by a number that the batch merely claims.

Compiled, `data` below is a C pointer; interpreted, it is the bytes themselves. Both are indexed
and sliced alike.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any, Literal
from weakref import ref

import cython

from penstock.model.errors import ClientClosed, CorruptBatch, InvalidBatch
from penstock.model.limits import DECOMPRESSED_BYTES_MAX
from penstock.records.columns import BinaryColumn, Columns, Headers, check_room, header_columns
from penstock.records.compression import decompress
from penstock.records.header import HEADER_BYTES, RECORD_BYTES_MIN, BatchHeader, Buffer, check_batch

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.cpython.memoryview import PyMemoryView_GET_BUFFER
    from cython.cimports.libc.string import memcpy

# Declared, so that they are C numbers when compiled.
_VARINT_BYTES_MAX = cython.declare(cython.int, 5)
_VARLONG_BYTES_MAX = cython.declare(cython.int, 10)
# Half of what fits in 64 bits, so that the sum of a time and a difference always does.
_TIMESTAMP_MS_MAX = cython.declare(cython.longlong, 1 << 62)


# The garbage collector would take a sixth of the time that decoding and reading a message takes. It
# need not look: nothing a message holds leads back to it, as its reference to the source is weak.
@cython.no_gc
@cython.final
@cython.cclass
class Message:
    """One message as a consumer gets it."""

    __slots__ = (
        "_headers",
        "_is_append_time",
        "_key",
        "_offset",
        "_partition",
        "_source",
        "_timestamp_ms",
        "_topic",
        "_value",
    )
    _topic: Any
    _partition: cython.int
    _offset: cython.longlong
    _timestamp_ms: cython.longlong
    _is_append_time: cython.bint
    _key: Any
    _value: Any
    _headers: Any
    _source: Any

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def offset(self) -> int:
        """The message's place in its partition."""
        return self._offset

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since 1970; `timestamp_type` says whose clock."""
        return self._timestamp_ms

    @property
    def timestamp_type(self) -> Literal["create", "append"]:
        """`create`: the producer's time; `append`: the broker's."""
        return "append" if self._is_append_time else "create"

    @property
    def key(self) -> bytes | None:
        return self._key

    @property
    def value(self) -> bytes | None:
        return self._value

    @property
    def headers(self) -> Headers:
        """Pairs of name and value, in the producer's order; names may repeat."""
        return self._headers

    @property
    def source(self) -> Any:
        """Whoever delivered the message and takes its acknowledgement; None if there is none."""
        return self._source and self._source()

    def ack(self) -> Any:
        """Say that this message has been dealt with. Await what it returns."""
        source = self.source
        if source is None:
            raise ClientClosed("The consumer of this message is gone: keep it to acknowledge.")
        return source.acknowledge(self)

    def __repr__(self) -> str:
        return (
            f"Message({self.topic!r}, {self.partition}, offset={self.offset}, key={self.key!r}, "
            f"value={self.value!r}, timestamp_ms={self.timestamp_ms}, headers={self.headers!r})"
        )


@cython.final
@cython.cclass
class _Cursor:
    """Walks the records of one batch. After each `advance` the fields describe one record."""

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
    # One record. A length of -1 stands for null.
    record_end: cython.Py_ssize_t
    offset_delta: cython.longlong
    timestamp_delta_ms: cython.longlong
    key_position: cython.Py_ssize_t
    key_length: cython.longlong
    value_position: cython.Py_ssize_t
    value_length: cython.longlong
    header_count: cython.longlong

    def __init__(self, header: BatchHeader, records: Buffer) -> None:
        self.base_offset = header.base_offset
        self.last_offset_delta = header.last_offset_delta
        self.base_timestamp_ms = header.base_timestamp_ms
        self.append_timestamp_ms = header.max_timestamp_ms
        self.is_append_time = header.is_append_time
        # Interpreted, slices of bytes are bytes, as slices of a C pointer are.
        self.owner = memoryview(records) if cython.compiled else bytes(records)
        self.data = _address(self.owner)
        self.position = 0
        self.end = len(records)
        self.records_left = header.record_count
        self.offset_delta = -1
        if not -_TIMESTAMP_MS_MAX <= self.base_timestamp_ms <= _TIMESTAMP_MS_MAX:
            raise self.problem(f"its base timestamp is {self.base_timestamp_ms} ms")

    @cython.cfunc
    def advance(self) -> cython.bint:
        """Go to the next record; False after the last, which must be where the batch ends."""
        if self.records_left == 0:
            if self.position != self.end:
                raise self.problem(f"{self.end - self.position} bytes follow its last record")
            return False
        self.records_left -= 1
        length: cython.longlong = self.length()
        if length < 0:
            raise self.problem("a record has no length")
        self.record_end = self.position + length
        self.position += 1  # the record's attributes: none are defined
        self.timestamp_delta_ms = self.varint(_VARLONG_BYTES_MAX)
        if not -_TIMESTAMP_MS_MAX <= self.timestamp_delta_ms <= _TIMESTAMP_MS_MAX:
            raise self.problem(f"a timestamp delta is {self.timestamp_delta_ms} ms")
        offset_delta: cython.longlong = self.varint(_VARINT_BYTES_MAX)
        if not self.offset_delta < offset_delta <= self.last_offset_delta:
            raise self.problem(f"offset delta {offset_delta} follows {self.offset_delta}")
        self.offset_delta = offset_delta
        self.key_length = self.length()
        self.key_position = self.position
        if self.key_length > 0:
            self.position += self.key_length
        self.value_length = self.length()
        self.value_position = self.position
        if self.value_length > 0:
            self.position += self.value_length
        self.header_count = self.varint(_VARINT_BYTES_MAX)
        if self.header_count < 0:
            raise self.problem(f"a record has {self.header_count} headers")
        if self.header_count == 0 and self.position != self.record_end:
            raise self.problem(f"a record of {length} bytes does not end where it says")
        return True

    @cython.cfunc
    def headers(self, wanted: cython.bint) -> object:
        """The record's headers, if they are wanted, and on to its end. Called after `advance`."""
        if self.header_count == 0:
            return ()
        headers = []
        for _ in range(self.header_count):
            name_length: cython.longlong = self.length()
            if name_length < 0:
                raise self.problem("a header has no name")
            name_position: cython.Py_ssize_t = self.position
            self.position += name_length
            length: cython.longlong = self.length()
            if wanted:
                name: bytes = self.data[name_position : name_position + name_length]
                # Java's client reads a name that is no UTF-8 with replacements, and so do we: one
                # careless producer must not stop every consumer.
                value = _slice(self.data, self.position, length)
                headers.append((name.decode("utf-8", "replace"), value))
            if length > 0:
                self.position += length
        if self.position != self.record_end:
            raise self.problem("a record's headers do not end where it does")
        return tuple(headers)

    @cython.cfunc
    def offset(self) -> cython.longlong:
        return self.base_offset + self.offset_delta

    @cython.cfunc
    def timestamp_ms(self) -> cython.longlong:
        if self.is_append_time:
            return self.append_timestamp_ms
        return self.base_timestamp_ms + self.timestamp_delta_ms

    @cython.cfunc
    @cython.inline
    def length(self) -> cython.longlong:
        """A length, or -1 for null; that many bytes are there."""
        length: cython.longlong = self.varint(_VARINT_BYTES_MAX)
        if length < -1 or length > self.end - self.position:
            raise self.problem(f"something says it has {length} bytes")
        return length

    @cython.cfunc
    @cython.inline
    def varint(self, bytes_max: cython.int) -> cython.longlong:
        """A zigzag integer as in Protocol Buffers."""
        if self.position >= self.end:
            raise self.problem("it ends within a record")
        byte: cython.longlong = self.data[self.position]
        if byte >= 0x80:
            return self.long_varint(bytes_max)
        self.position += 1
        return (byte >> 1) ^ -(byte & 1)

    @cython.cfunc
    def long_varint(self, bytes_max: cython.int) -> cython.longlong:
        number: cython.ulonglong = 0
        shift: cython.int = 0
        byte: cython.ulonglong = 0x80
        while byte >= 0x80:
            if self.position >= self.end:
                raise self.problem("it ends within a number")
            if shift == 7 * bytes_max:
                raise self.problem(f"a number has more than {bytes_max} bytes")
            byte = self.data[self.position]
            self.position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        # The last byte of the longest form has room for more bits than the number has.
        if (shift == 35 and bytes_max == 5 and byte > 0x0F) or (shift == 70 and byte > 0x01):
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


def decode_messages(
    payload: Buffer, topic: str, partition: int, start_offset: int, source: Any = None
) -> list[Message]:
    """Every message from the offset on, out of whole batches end to end; control batches are
    skipped. CorruptBatch if a checksum is wrong, InvalidBatch if what it covers makes no sense."""
    reference = None if source is None else ref(source)
    messages: list[Message] = []
    for cursor in _cursors(payload, start_offset):
        _take_messages(cursor, messages, topic, partition, start_offset, reference, True)
    return messages


def decode_batch(
    header: BatchHeader, batch: memoryview, bytes_max: int, include_headers: bool = True
) -> list[Message]:
    """The records of one checked batch, control or not, as messages of no topic: to inspect it."""
    messages: list[Message] = []
    _take_messages(_open(header, batch, bytes_max), messages, "", -1, 0, None, include_headers)
    return messages


def count_keys(header: BatchHeader, batch: memoryview, bytes_max: int) -> int:
    """How many records of one checked batch have a key; all of them are found sound on the way."""
    cursor: _Cursor = _open(header, batch, bytes_max)
    keys: cython.longlong = 0
    while cursor.advance():
        cursor.headers(False)
        keys += cursor.key_length >= 0
    return keys


def _cursors(payload: Buffer, start_offset: int) -> Iterator[_Cursor]:
    """A cursor for each data batch that reaches the offset, checked and decompressed."""
    cursor: _Cursor
    view = memoryview(payload).cast("B")
    position = 0
    room = DECOMPRESSED_BYTES_MAX  # for the whole payload: many small bombs are one large one
    while position < len(view):
        header = check_batch(view, position)
        batch = view[position : position + header.length]
        position += header.length
        if header.is_control or header.last_offset < start_offset:
            continue
        cursor = _open(header, batch, room)
        if header.codec:
            room -= cursor.end
        yield cursor


def _open(header: BatchHeader, batch: memoryview, room: int) -> _Cursor:
    try:
        return _Cursor(header, decompress(header.codec, batch[HEADER_BYTES:], room))
    except CorruptBatch as error:
        # Damage on the way would have shown in the checksum: trying again cannot help.
        raise InvalidBatch(
            f"The record batch at offset {header.base_offset} cannot be decompressed: {error}"
        ) from None


@cython.cfunc
def _take_messages(
    cursor: _Cursor,
    messages: list[Message],
    topic: object,
    partition: cython.int,
    start_offset: cython.longlong,
    source: object,
    include_headers: cython.bint,
) -> cython.void:
    while cursor.advance():
        headers: object = cursor.headers(include_headers)
        if cursor.offset() < start_offset:
            continue
        message: Message = Message.__new__(Message)
        message._topic = topic
        message._partition = partition
        message._offset = cursor.offset()
        message._timestamp_ms = cursor.timestamp_ms()
        message._is_append_time = cursor.is_append_time
        message._key = _slice(cursor.data, cursor.key_position, cursor.key_length)
        message._value = _slice(cursor.data, cursor.value_position, cursor.value_length)
        message._headers = headers
        message._source = source
        messages.append(message)


@cython.final
@cython.cclass
class _BinaryRows:
    """A binary column being filled, with room for as many rows and bytes as there can be."""

    column: BinaryColumn
    offsets: cython.p_int
    data: cython.p_uchar
    validity: cython.p_uchar
    length: cython.Py_ssize_t

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        offsets = array("i", bytes(4 * (rows_max + 1)))
        if cython.compiled:
            # Not cleared: a column may need little of what it could need.
            data = PyByteArray_FromStringAndSize(cython.NULL, bytes_max)
        else:
            data = bytearray(bytes_max)
        self.column = column = BinaryColumn(
            offsets=offsets, data=data, validity=bytearray((rows_max + 7) // 8)
        )
        self.length = 0
        self.data = _address(column.data)
        self.validity = _address(column.validity)
        if cython.compiled:
            self.offsets = cython.cast(cython.p_int, _address(offsets))
        else:
            self.offsets = offsets

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(
        self,
        row: cython.Py_ssize_t,
        data: cython.p_uchar,
        position: cython.Py_ssize_t,
        length: cython.longlong,
    ) -> cython.void:
        if length >= 0:
            if cython.compiled:
                memcpy(self.data + self.length, data + position, length)
            else:
                self.data[self.length : self.length + length] = data[position : position + length]
            self.length += length
            self.validity[row >> 3] |= 1 << (row & 7)
        self.offsets[row + 1] = self.length

    @cython.cfunc
    def finish(self, rows: cython.Py_ssize_t) -> object:
        del self.column.offsets[rows + 1 :], self.column.data[self.length :]
        del self.column.validity[(rows + 7) // 8 :]
        return self.column


def decode_columns(payload: Buffer, start_offset: int, include_headers: bool = False) -> Columns:
    """The same records as `decode_messages`, as columns; BatchTooLarge beyond 2 GiB of them."""
    cursors = list(_cursors(payload, start_offset))
    cursor: _Cursor
    bytes_max = rows_max = 0
    for cursor in cursors:
        bytes_max += cursor.end
        rows_max += min(cursor.records_left, cursor.end // RECORD_BYTES_MIN)
    check_room(bytes_max)
    offsets = array("q", bytes(8 * rows_max))
    timestamps_ms = array("q", bytes(8 * rows_max))
    keys = _BinaryRows(rows_max, bytes_max)
    values = _BinaryRows(rows_max, bytes_max)
    headers: list[Headers] | None = [] if include_headers else None
    row: cython.Py_ssize_t = 0
    for cursor in cursors:
        row = _take_rows(cursor, row, start_offset, (offsets, timestamps_ms), keys, values, headers)
    del offsets[row:], timestamps_ms[row:]
    return Columns(
        record_count=row,
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        keys=keys.finish(row),
        values=values.finish(row),
        headers=None if headers is None else header_columns(headers),
    )


@cython.cfunc
def _take_rows(
    cursor: _Cursor,
    row: cython.Py_ssize_t,
    start_offset: cython.longlong,
    numbers: tuple[array[int], array[int]],
    keys: _BinaryRows,
    values: _BinaryRows,
    headers: list[Headers] | None,
) -> cython.Py_ssize_t:
    """Fill in rows from this one on; the next row to fill."""
    if cython.compiled:
        offsets: cython.p_longlong = cython.cast(cython.p_longlong, _address(numbers[0]))
        timestamps_ms: cython.p_longlong = cython.cast(cython.p_longlong, _address(numbers[1]))
    else:
        offsets, timestamps_ms = numbers
    while cursor.advance():
        row_headers: Any = cursor.headers(headers is not None)
        if cursor.offset() < start_offset:
            continue
        offsets[row] = cursor.offset()
        timestamps_ms[row] = cursor.timestamp_ms()
        keys.put(row, cursor.data, cursor.key_position, cursor.key_length)
        values.put(row, cursor.data, cursor.value_position, cursor.value_length)
        if headers is not None:
            headers.append(row_headers)
        row += 1
    return row


@cython.cfunc
@cython.inline
def _slice(data: cython.p_uchar, position: cython.Py_ssize_t, length: cython.longlong) -> object:
    return None if length < 0 else data[position : position + length]


@cython.cfunc
def _address(buffer: Any) -> cython.p_uchar:
    """Compiled, where the buffer's bytes are until it is resized; interpreted, the buffer."""
    if cython.compiled:
        return cython.cast(cython.p_uchar, PyMemoryView_GET_BUFFER(memoryview(buffer)).buf)
    else:  # noqa: RET505 - so that the compiler sees it is never reached
        return buffer
