# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Records out of batches, straight into columns: the loop of a Spark job.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._column_decoder`. Import from `penstock.records`, which picks. Records are parsed
by `records.cursor`; what columns are is in `records.columns`. Compiled, no Python object is made
per message.

The invariant: a column has room for a row before it is put there, and what it takes in memory is
bounded by the bytes of the batches, not by what they say of themselves.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import cython

from penstock.records.columns import (
    COLUMN_BYTES_MAX,
    BatchRows,
    BinaryColumn,
    Columns,
    HeaderColumns,
    check_room,
)
from penstock.records.header import RECORD_BYTES_MIN, Buffer

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_FromStringAndSize
    from cython.cimports.libc.string import memcpy
    from cython.cimports.penstock.records._cursor import Cursor, address

    from penstock.records._cursor import cursors  # type: ignore[import-not-found]
else:
    from penstock.records.cursor import Cursor, address, cursors

_OFFSET_MAX = cython.declare(cython.longlong, (1 << 63) - 1)
# The first room for headers, which few messages have: rows, and bytes of their names and values.
_HEADER_ROWS_MIN = cython.declare(cython.Py_ssize_t, 64)
_HEADER_BYTES_MIN = cython.declare(cython.Py_ssize_t, 1024)


@cython.final
@cython.cclass
class _BinaryRows:
    """A binary column being filled."""

    offsets: Any
    data: Any
    validity: Any
    row: cython.Py_ssize_t  # the next to fill
    length: cython.Py_ssize_t  # of the data so far
    rows_max: cython.Py_ssize_t
    bytes_max: cython.Py_ssize_t
    # Where the three are, until they grow.
    offsets_at: cython.p_int
    data_at: cython.p_uchar
    validity_at: cython.p_uchar

    def __init__(self, rows_max: int, bytes_max: int) -> None:
        self.offsets = array("i", bytes(4 * (rows_max + 1)))
        if cython.compiled:
            # Not cleared: a column may need little of what it could need.
            self.data = PyByteArray_FromStringAndSize(cython.NULL, bytes_max)
        else:
            self.data = bytearray(bytes_max)
        self.validity = bytearray((rows_max + 7) // 8)
        self.row = self.length = 0
        self.rows_max = rows_max
        self.bytes_max = bytes_max
        self.locate()

    @cython.cfunc
    def locate(self) -> cython.void:
        self.data_at = address(self.data)
        self.validity_at = address(self.validity)
        if cython.compiled:
            self.offsets_at = cython.cast(cython.p_int, address(self.offsets))
        else:
            self.offsets_at = self.offsets

    @cython.cfunc
    @cython.inline
    def make_room(self, rows: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.void:
        """Let so many more rows of so many bytes in all fit in."""
        if self.row + rows > self.rows_max or self.length + length > self.bytes_max:
            self.grow(rows, length)

    @cython.cfunc
    def grow(self, rows: cython.Py_ssize_t, length: cython.Py_ssize_t) -> cython.void:
        """What is too small gets twice the room that it had, at least."""
        if self.row + rows > self.rows_max:
            self.rows_max = max(self.row + rows, 2 * self.rows_max)
            self.offsets.frombytes(bytes(4 * (self.rows_max + 1 - len(self.offsets))))
            self.validity += bytes((self.rows_max + 7) // 8 - len(self.validity))
        if self.length + length > self.bytes_max:
            check_room(self.length + length)
            self.bytes_max = max(self.length + length, min(2 * self.bytes_max, COLUMN_BYTES_MAX))
            self.data += bytes(self.bytes_max - len(self.data))
        self.locate()

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def put(
        self, data: cython.p_uchar, position: cython.Py_ssize_t, length: cython.longlong
    ) -> cython.void:
        """Fill the next row; a length of -1 stands for null."""
        if length >= 0:
            if cython.compiled:
                memcpy(self.data_at + self.length, data + position, length)
            else:
                start = self.length
                self.data_at[start : start + length] = data[position : position + length]
            self.length += length
            self.validity_at[self.row >> 3] |= 1 << (self.row & 7)
        self.row += 1
        self.offsets_at[self.row] = self.length

    @cython.cfunc
    def finish(self) -> object:
        del self.offsets[self.row + 1 :], self.data[self.length :]
        del self.validity[(self.row + 7) // 8 :]
        return BinaryColumn(offsets=self.offsets, data=self.data, validity=self.validity)


@cython.final
@cython.cclass
class _HeaderRows:
    """The headers of all rows being filled. They grow: most messages have none, and what a batch
    could hold of them at most is many times its size."""

    offsets: Any
    offsets_at: cython.p_int
    row: cython.Py_ssize_t
    names: _BinaryRows
    contents: _BinaryRows

    def __init__(self, rows_max: int) -> None:
        self.offsets = array("i", bytes(4 * (rows_max + 1)))
        if cython.compiled:
            self.offsets_at = cython.cast(cython.p_int, address(self.offsets))
        else:
            self.offsets_at = self.offsets
        self.row = 0
        self.names = _BinaryRows(_HEADER_ROWS_MIN, _HEADER_BYTES_MIN)
        self.contents = _BinaryRows(_HEADER_ROWS_MIN, _HEADER_BYTES_MIN)

    @cython.cfunc
    def take(self, cursor: Cursor) -> cython.bint:
        """Fill the next row with the headers of the cursor's record."""
        names: _BinaryRows = self.names
        contents: _BinaryRows = self.contents
        if cursor.headers_left:
            length: cython.Py_ssize_t = cursor.record_end - cursor.position
            names.make_room(cursor.headers_left, length)
            contents.make_room(cursor.headers_left, length)
            while cursor.next_header():
                if _is_ascii(cursor.data, cursor.name_position, cursor.name_length):
                    names.put(cursor.data, cursor.name_position, cursor.name_length)
                else:
                    self.put_name(cursor)
                contents.put(cursor.data, cursor.content_position, cursor.content_length)
        self.row += 1
        self.offsets_at[self.row] = names.row
        return True

    @cython.cfunc
    def put_name(self, cursor: Cursor) -> cython.void:
        """A name that is not plain ASCII, which is rare: read as messages read it, so that it is
        UTF-8 whatever a careless producer wrote."""
        name: bytes = cursor.data[cursor.name_position : cursor.name_position + cursor.name_length]
        name = name.decode("utf-8", "replace").encode()
        # A replacement is longer than the byte it stands for; the rest still needs its room.
        left: cython.Py_ssize_t = cursor.record_end - cursor.name_position
        self.names.make_room(cursor.headers_left + 1, len(name) + left)
        self.names.put(address(name), 0, len(name))

    @cython.cfunc
    def finish(self) -> object:
        del self.offsets[self.row + 1 :]
        return HeaderColumns(
            offsets=self.offsets, keys=self.names.finish(), values=self.contents.finish()
        )


def decode_columns(
    payload: Buffer,
    start_offset: int,
    include_headers: bool = False,
    end_offset: int | None = None,
    *,
    producer_times: bool = False,
) -> Columns:
    """The same records as `decode_messages`, before the end offset if there is one, as columns.

    BatchTooLarge beyond 2 GiB of them. producer_times: the times that producers gave, also where
    the broker stamped the batch; its own is then `max_timestamp_ms` of the batch's header.
    """
    opened = list(cursors(payload, start_offset, end_offset))
    return _columns(opened, start_offset, include_headers, end_offset, producer_times)


def decode_pieces(
    payload: Buffer,
    start_offset: int,
    include_headers: bool = False,
    end_offset: int | None = None,
    *,
    producer_times: bool = False,
    rows_max: int,
    bytes_max: int,
) -> Iterator[Columns]:
    """The same in pieces of whole batches: each of at most so many rows, and bytes of records when
    decompressed, or of one batch. What is held is one piece and the batch that follows it."""
    opened: list[Cursor] = []
    cursor: Cursor
    rows = size = 0
    for cursor in cursors(payload, start_offset, end_offset, keeps_all=False):
        if opened and (rows + cursor.records_left > rows_max or size + cursor.end > bytes_max):
            piece = _columns(opened, start_offset, include_headers, end_offset, producer_times)
            opened = []
            rows = size = 0
            yield piece
        opened.append(cursor)
        rows += cursor.records_left
        size += cursor.end
    if opened:
        yield _columns(opened, start_offset, include_headers, end_offset, producer_times)


@cython.cfunc
def _columns(
    opened: list[Cursor],
    start_offset: int,
    include_headers: bool,
    end_offset: int | None,
    producer_times: bool,
) -> Columns:
    """The rows of batches before whose first records the cursors are."""
    cursor: Cursor
    bytes_max = rows_max = 0
    for cursor in opened:
        bytes_max += cursor.end
        rows_max += min(cursor.records_left, cursor.end // RECORD_BYTES_MIN)
    check_room(bytes_max)
    numbers = array("q", bytes(8 * rows_max)), array("q", bytes(8 * rows_max))
    keys = _BinaryRows(rows_max, bytes_max)
    values = _BinaryRows(rows_max, bytes_max)
    headers: _HeaderRows | None = _HeaderRows(rows_max) if include_headers else None
    batches: list[BatchRows] = []
    row: cython.Py_ssize_t = 0
    for cursor in opened:
        if producer_times:
            cursor.is_append_time = False
        limit = _OFFSET_MAX if end_offset is None else end_offset
        _take_rows(cursor, start_offset, limit, numbers, keys, values, headers)
        if values.row > row:
            batches.append(BatchRows(values.row - row, cursor.header))
            row = values.row
    offsets, timestamps_ms = numbers
    del offsets[row:], timestamps_ms[row:]
    return Columns(
        record_count=row,
        offsets=offsets,
        timestamps_ms=timestamps_ms,
        keys=keys.finish(),
        values=values.finish(),
        headers=None if headers is None else headers.finish(),
        batches=batches,
    )


@cython.cfunc
def _take_rows(
    cursor: Cursor,
    start_offset: cython.longlong,
    end_offset: cython.longlong,
    numbers: tuple[array[int], array[int]],
    keys: _BinaryRows,
    values: _BinaryRows,
    headers: _HeaderRows | None,
) -> cython.bint:
    """Put the batch's records in the next rows. All of them are checked, also those before and
    behind: whether a batch is sound does not depend on where reading begins and ends."""
    if cython.compiled:
        offsets: cython.p_longlong = cython.cast(cython.p_longlong, address(numbers[0]))
        timestamps_ms: cython.p_longlong = cython.cast(cython.p_longlong, address(numbers[1]))
    else:
        offsets, timestamps_ms = numbers
    while cursor.advance():
        if not start_offset <= cursor.offset < end_offset:
            cursor.skip_headers()
            continue
        offsets[values.row] = cursor.offset
        timestamps_ms[values.row] = cursor.timestamp_ms
        keys.put(cursor.data, cursor.key_position, cursor.key_length)
        values.put(cursor.data, cursor.value_position, cursor.value_length)
        if headers is not None:
            headers.take(cursor)
        elif cursor.headers_left:
            cursor.skip_headers()
    return True


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _is_ascii(
    data: cython.p_uchar, position: cython.Py_ssize_t, length: cython.longlong
) -> cython.bint:
    end: cython.Py_ssize_t = position + length
    while position < end and data[position] < 0x80:
        position += 1
    return position == end
