"""Columns from rows and rows from columns, the slow and obvious way, to hold the fast ways against.

Not a test. A row is (timestamp_ms, key, value, headers), as a record is.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from penstock.records import BinaryColumn, Columns, HeaderColumns, OutgoingColumns
from tests.kit.records.oracles import Headers, Placed, Record


def binary_column(
    rows: Sequence[bytes | None], *, padding: bytes = b"", skipped_bits: int = 0
) -> BinaryColumn:
    """A column as Arrow has it, or a slice of one: behind other data and other rows' bits."""
    offsets = array("i", [len(padding)])
    data = bytearray(padding)
    validity = bytearray((skipped_bits + len(rows) + 7) // 8)
    for row, value in enumerate(rows):
        if value is not None:
            data += value
            bit = skipped_bits + row
            validity[bit >> 3] |= 1 << (bit & 7)
        offsets.append(len(data))
    return BinaryColumn(
        offsets=offsets,
        data=bytes(data),
        validity=bytes(validity) if skipped_bits or None in rows else None,
        validity_offset=skipped_bits,
    )


def header_columns(rows: Sequence[Headers]) -> HeaderColumns:
    pairs = [pair for headers in rows for pair in headers]
    offsets = array("i", [0])
    for headers in rows:
        offsets.append(offsets[-1] + len(headers))
    return HeaderColumns(
        offsets=offsets,
        keys=binary_column([name.encode() for name, _ in pairs]),
        values=binary_column([value for _, value in pairs]),
    )


def outgoing(rows: Sequence[Record], *, skipped_bits: int = 0) -> OutgoingColumns:
    timestamps_ms, keys, values, headers = zip(*rows, strict=True) if rows else ((),) * 4
    return OutgoingColumns(
        row_count=len(rows),
        keys=binary_column(keys, padding=b"before", skipped_bits=skipped_bits),
        values=binary_column(values, skipped_bits=skipped_bits),
        headers=header_columns(headers),
        timestamps_ms=array("q", timestamps_ms),
    )


def values_of(column: BinaryColumn) -> list[bytes | None]:
    """What Arrow would read in a decoded column."""
    rows = len(column.offsets) - 1
    assert column.validity is not None
    assert len(column.validity) == (rows + 7) // 8
    assert (column.offsets[0], column.offsets[rows]) == (0, len(column.data))
    assert isinstance(column.offsets, array)
    assert column.offsets.typecode == "i"
    return [
        bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
        if column.validity[row // 8] >> row % 8 & 1
        else None
        for row in range(rows)
    ]


def rows_of(columns: Columns) -> list[Placed]:
    """What Arrow would read in decoded columns: offset, timestamp, key, value and headers."""
    assert columns.offsets.typecode == columns.timestamps_ms.typecode == "q"
    headers: list[Headers] = [()] * columns.record_count
    if columns.headers is not None:
        starts = columns.headers.offsets
        names = [(name or b"").decode() for name in values_of(columns.headers.keys)]
        pairs = list(zip(names, values_of(columns.headers.values), strict=True))
        headers = [
            tuple(pairs[starts[row] : starts[row + 1]]) for row in range(columns.record_count)
        ]
        assert starts[columns.record_count] == len(pairs)
    assert sum(batch.rows for batch in columns.batches) == columns.record_count
    return list(
        zip(
            columns.offsets,
            columns.timestamps_ms,
            values_of(columns.keys),
            values_of(columns.values),
            headers,
            strict=True,
        )
    )
