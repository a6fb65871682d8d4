"""Decoded records as columns, in the memory layout of Apache Arrow.

Plain buffers that `pyarrow.py_buffer` wraps without a copy; Arrow itself is not needed here. A
binary column of n rows is n + 1 offsets into one block of data, and one validity bit per row,
lowest bit first, 0 for null. The invariant: `offsets[n]` is the length of the data.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import BatchTooLarge

# What the int32 offsets of a column can tell apart.
COLUMN_BYTES_MAX: Final = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of one record: names and values, in the producer's order; names may repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """Nullable byte strings, as Arrow's `binary` (or `string`) lays them out."""

    offsets: array[int]
    """int32, one more than there are rows; row i is data[offsets[i]:offsets[i + 1]]."""
    data: bytearray
    validity: bytearray


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumns:
    """The headers of all rows, as Arrow's `list<struct<key: string, value: binary>>`."""

    offsets: array[int]
    """int32, one more than there are rows; row i has headers offsets[i] up to offsets[i + 1]."""
    keys: BinaryColumn
    values: BinaryColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The records of one or more batches, a column for each part."""

    record_count: int
    offsets: array[int]
    """int64, each record's offset in its partition."""
    timestamps_ms: array[int]
    """int64, milliseconds since 1970."""
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeaderColumns | None
    """None unless they were asked for."""


def check_room(bytes_max: int) -> None:
    """Raise BatchTooLarge if a column of so many bytes cannot be."""
    if bytes_max > COLUMN_BYTES_MAX:
        raise BatchTooLarge(
            f"The batches hold {bytes_max} bytes of records, columns {COLUMN_BYTES_MAX} at most: "
            f"decode fewer of them at a time."
        )


def header_columns(rows: Sequence[Headers]) -> HeaderColumns:
    """The headers of each row as columns."""
    offsets = array("i", [0])
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    for headers in rows:
        for key, value in headers:
            keys.append(key.encode())
            values.append(value)
        offsets.append(len(keys))
    return HeaderColumns(offsets=offsets, keys=_binary_column(keys), values=_binary_column(values))


def _binary_column(rows: Sequence[bytes | None]) -> BinaryColumn:
    offsets = array("i", [0])
    data = bytearray()
    validity = bytearray((len(rows) + 7) // 8)
    for row, value in enumerate(rows):
        if value is not None:
            data += value
            validity[row >> 3] |= 1 << (row & 7)
        offsets.append(len(data))
    return BinaryColumn(offsets=offsets, data=data, validity=validity)
