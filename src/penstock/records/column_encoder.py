# mypy: disallow-untyped-decorators=False, warn-return-any=False
"""Columns into finished record batches, and keys to partitions: the loops of a Spark sink.

One source, two ways to run (docs/decisions/0002): as it stands, or compiled by Cython to
`penstock.records._column_encoder`. Import from `penstock.records`, which picks. Records are written
by `records.builder`; what columns are is in `records.columns`. Compiled, no Python object is made
per message.

The invariant: no byte outside the buffers given is read, whatever their offsets say; and the rows
of a partition are in its batches in the order in which they were given.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

from penstock.model.errors import InvalidRequest
from penstock.model.limits import PARTITIONS_PER_TOPIC_MAX
from penstock.records.columns import BinaryColumn, EncodedBatch, HeaderColumns, OutgoingColumns
from penstock.records.header import Buffer

if cython.compiled:
    from cython.cimports.penstock.records._builder import (
        BatchBuilder,
        hash_key,
        put_field,
        put_varint,
        varint_size,
    )
    from cython.cimports.penstock.records._cursor import address
else:
    from penstock.records.builder import (
        BatchBuilder,
        hash_key,
        put_field,
        put_varint,
        varint_size,
    )
    from penstock.records.cursor import address

_PARTITIONS_MAX = cython.declare(cython.int, PARTITIONS_PER_TOPIC_MAX)
# A number takes at most ten bytes.
_VARINT_BYTES_MAX = cython.declare(cython.Py_ssize_t, 10)


@cython.final
@cython.cclass
class _Spans:
    """Arrow's offsets and validity: which part of something belongs to a row, or none."""

    name: str
    owners: object  # keep what the pointers point into
    rows: cython.Py_ssize_t
    end: cython.longlong  # of what the offsets point into
    offsets: cython.p_int
    validity: cython.p_uchar
    has_nulls: cython.bint
    first_bit: cython.Py_ssize_t
    start: cython.Py_ssize_t  # of the row last asked for

    def __init__(self, name: str, rows: int, end: int, column: BinaryColumn | HeaderColumns):
        offsets = memoryview(column.offsets).cast("B")
        validity = memoryview(b"" if column.validity is None else column.validity).cast("B")
        self.name = name
        self.owners = (offsets, validity)
        self.rows = rows
        self.end = end
        self.has_nulls = column.validity is not None
        self.first_bit = column.validity_offset
        self.start = 0
        if rows and len(offsets) < 4 * (rows + 1):  # Arrow has none where there is no row
            raise self.problem(f"has {len(offsets)} bytes of offsets for {rows} rows")
        if self.first_bit < 0 or (self.has_nulls and 8 * len(validity) < self.first_bit + rows):
            raise self.problem(f"has {len(validity)} bytes of validity for {rows} rows")
        self.validity = address(validity)
        if cython.compiled:
            self.offsets = cython.cast(cython.p_int, address(offsets))
        else:
            self.offsets = offsets[: 4 * (rows + 1)].cast("i")

    @cython.cfunc
    @cython.inline
    def find(self, row: cython.Py_ssize_t) -> cython.longlong:
        """The length of the row's part, which is at `start`; -1 for null."""
        if self.has_nulls:
            bit: cython.Py_ssize_t = self.first_bit + row
            if not self.validity[bit >> 3] >> (bit & 7) & 1:
                return -1
        start: cython.longlong = self.offsets[row]
        end: cython.longlong = self.offsets[row + 1]
        if not 0 <= start <= end <= self.end:
            raise self.problem(f"says that row {row} is from {start} to {end} of {self.end}")
        self.start = start
        return end - start

    @cython.cfunc
    def problem(self, what: str) -> object:
        return InvalidRequest(f"The column of {self.name} {what}: it is not in Arrow's layout.")


@cython.final
@cython.cclass
class _Binary:
    """A binary column to read from; without a column every row is null."""

    is_there: cython.bint
    spans: _Spans
    owner: object
    data: cython.p_uchar
    # The row last asked for. Interpreted, `field` is its bytes; compiled, where they are.
    field: cython.p_uchar

    def __init__(self, name: str, rows: int, column: BinaryColumn | None) -> None:
        self.is_there = column is not None
        found = column or BinaryColumn(offsets=array("i", [0]), data=b"", validity=None)
        self.owner = memoryview(found.data).cast("B")
        self.spans = _Spans(name, rows if self.is_there else 0, len(self.owner), found)
        self.field = self.data = address(self.owner)

    @cython.cfunc
    @cython.inline
    def find(self, row: cython.Py_ssize_t) -> cython.longlong:
        """The length of the row's `field`; -1 for null."""
        if not self.is_there:
            return -1
        length: cython.longlong = self.spans.find(row)
        if cython.compiled:
            self.field = self.data + self.spans.start
        else:
            self.field = self.data[self.spans.start : self.spans.start + length]
        return length


@cython.final
@cython.cclass
class _Headers:
    """Header columns to read from: a row's headers as they stand at the end of its record."""

    is_there: cython.bint
    spans: _Spans
    names: _Binary
    contents: _Binary
    buffer: bytearray
    encoded: cython.p_uchar  # the row last asked for

    def __init__(self, rows: int, columns: HeaderColumns | None) -> None:
        self.is_there = columns is not None
        self.buffer = bytearray(1)  # the number of no headers
        self.encoded = self.buffer
        if columns is not None:
            total = max(memoryview(columns.keys.offsets).nbytes // 4 - 1, 0)
            self.names = _Binary("header names", total, columns.keys)
            self.contents = _Binary("header values", total, columns.values)
            self.spans = _Spans("headers", rows, total, columns)

    @cython.cfunc
    def find(self, row: cython.Py_ssize_t) -> cython.longlong:
        """The length of the row's headers, which are in `encoded`."""
        if not self.is_there:
            return 1
        count: cython.longlong = max(self.spans.find(row), 0)
        first: cython.Py_ssize_t = self.spans.start
        size: cython.longlong = varint_size(count)
        index: cython.Py_ssize_t
        for index in range(first, first + count):
            name_length: cython.longlong = self.names.find(index)
            if name_length < 0:
                raise InvalidRequest(f"A header of row {row} has no name: give it one.")
            size += name_length + max(self.contents.find(index), 0) + 2 * _VARINT_BYTES_MAX
        if size > len(self.buffer):
            self.buffer = bytearray(2 * size)
        data: cython.p_uchar = self.buffer
        position: cython.Py_ssize_t = put_varint(data, 0, count)
        for index in range(first, first + count):
            name_length = self.names.find(index)
            position = put_field(data, position, self.names.field, name_length)
            length: cython.longlong = self.contents.find(index)
            position = put_field(data, position, self.contents.field, length)
        if cython.compiled:
            self.encoded = data
        else:
            self.encoded = self.buffer[:position]
        return position


def hash_partitions(
    keys: BinaryColumn | None, row_count: int, partition_count: int, null_partition: int
) -> array[int]:
    """The partition of each row, int32: that which Kafka's clients choose for its key, and the
    one given for rows without a key."""
    assert partition_count > 0, f"{partition_count} partitions"
    result = array("i", bytes(4 * row_count))
    if cython.compiled:
        partitions: cython.p_int = cython.cast(cython.p_int, address(result))
    else:
        partitions = result
    column: _Binary = _Binary("keys", row_count, keys)
    count: cython.longlong = partition_count
    partition_of_null: cython.int = null_partition
    row: cython.Py_ssize_t
    rows: cython.Py_ssize_t = row_count
    for row in range(rows):
        length: cython.longlong = column.find(row)
        if length < 0:
            partitions[row] = partition_of_null
        else:
            partitions[row] = (hash_key(column.field, length) & 0x7FFFFFFF) % count
    return result


def encode_columns(
    columns: OutgoingColumns,
    partitions: array[int] | Buffer,
    *,
    codec: int,
    batch_bytes: int,
    now_ms: int,
) -> list[EncodedBatch]:
    """Finished batches of these rows, each of at most `batch_bytes` before compression unless its
    only row has more. `partitions` has an int32 for each row."""
    rows: cython.Py_ssize_t = columns.row_count
    keys: _Binary = _Binary("keys", rows, columns.keys)
    values: _Binary = _Binary("values", rows, columns.values)
    headers: _Headers = _Headers(rows, columns.headers)
    partition_view = _numbers(partitions, rows, 4, "partitions")
    has_times: cython.bint = columns.timestamps_ms is not None
    times = b"" if columns.timestamps_ms is None else columns.timestamps_ms
    time_view = _numbers(times, rows if has_times else 0, 8, "timestamps")
    if cython.compiled:
        partition_at: cython.p_int = cython.cast(cython.p_int, address(partition_view))
        time_at: cython.p_longlong = cython.cast(cython.p_longlong, address(time_view))
    else:
        partition_at, time_at = partition_view.cast("i"), time_view.cast("q")
    timestamp_ms: cython.longlong = now_ms
    builders: list[Any] = []
    batches: list[EncodedBatch] = []
    row: cython.Py_ssize_t
    for row in range(rows):
        partition: cython.int = partition_at[row]
        if not 0 <= partition < len(builders):
            _make_builders(builders, partition, row, batch_bytes, codec)
        builder: BatchBuilder = builders[partition]
        if has_times:
            timestamp_ms = time_at[row]
        key_length: cython.longlong = keys.find(row)
        value_length: cython.longlong = values.find(row)
        headers_length: cython.longlong = headers.find(row)
        while (
            builder.put_record(
                timestamp_ms,
                keys.field,
                key_length,
                values.field,
                value_length,
                headers.encoded,
                headers_length,
            )
            < 0
        ):
            batches.append(EncodedBatch(partition, builder.record_count, builder.build()))
            builder = builders[partition] = BatchBuilder(batch_bytes, codec)
    for number, last in enumerate(builders):
        if last.record_count:
            batches.append(EncodedBatch(number, last.record_count, last.build()))
    return batches


@cython.cfunc
def _make_builders(
    builders: list[Any], partition: cython.int, row: cython.Py_ssize_t, bytes_max: int, codec: int
) -> cython.void:
    if not 0 <= partition < _PARTITIONS_MAX:
        raise InvalidRequest(
            f"Row {row} is for partition {partition}: they are numbered from 0, and a topic has at "
            f"most {PARTITIONS_PER_TOPIC_MAX}."
        )
    while len(builders) <= partition:
        builders.append(BatchBuilder(bytes_max, codec))


def _numbers(buffer: array[int] | Buffer, rows: int, width: int, name: str) -> memoryview:
    """The bytes of so many numbers, or InvalidRequest if there are fewer."""
    view = memoryview(buffer).cast("B")
    if len(view) < rows * width:
        raise InvalidRequest(
            f"There are {len(view)} bytes of {name} for {rows} rows: {width} each are needed."
        )
    return view[: rows * width]
