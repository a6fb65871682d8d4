"""Records as columns, in the memory layout of Apache Arrow.

Plain buffers that `pyarrow.py_buffer` wraps without a copy; Arrow itself is not needed here. A
binary column of n rows is n + 1 offsets into one block of data, and one validity bit per row,
lowest bit first, 0 for null. The invariant of columns that were decoded: their offsets begin at 0,
`offsets[n]` is the length of the data, and there is a validity bit for each row. Columns that are
to be encoded may be slices of Arrow's: `records.column_encoder` takes none of this for granted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.model.errors import BatchTooLarge
from penstock.records.header import BatchHeader, Buffer

# What the int32 offsets of a column can tell apart.
COLUMN_BYTES_MAX: Final = 2**31 - 1

Headers = tuple[tuple[str, bytes | None], ...]
"""The headers of one record: names and values, in the producer's order; names may repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryColumn:
    """Nullable byte strings, as Arrow's `binary` (or `string`) lays them out."""

    offsets: array[int] | memoryview
    """int32, one more than there are rows; row i is data[offsets[i]:offsets[i + 1]]. They need
    not begin at 0."""
    data: Buffer
    validity: Buffer | None
    """A bit for each row; None: no row is null. Decoded columns always have one."""
    validity_offset: int = 0
    """How many bits come before that of the first row: the `offset` of an Arrow array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumns:
    """The headers of all rows, as Arrow's `list<struct<key: string, value: binary>>`."""

    offsets: array[int] | memoryview
    """int32, one more than there are rows; row i has headers offsets[i] up to offsets[i + 1]."""
    keys: BinaryColumn
    values: BinaryColumn
    validity: Buffer | None = None
    """A bit for each row, 0 for one without headers; None: the offsets say it all."""
    validity_offset: int = 0


class BatchRows(NamedTuple):
    """A batch that rows came from."""

    rows: int
    """How many of the rows, which follow those of the batch before it."""
    header: BatchHeader


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
    batches: Sequence[BatchRows]
    """Every batch that gave rows, in order: so that what all rows of a batch have in common (whose
    clock, which producer, which codec) is known with nothing kept per row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingColumns:
    """Rows to be encoded, a column for each part. The buffers may be Arrow's own, of any slice."""

    row_count: int
    keys: BinaryColumn | None = None
    """None: no row has a key."""
    values: BinaryColumn | None = None
    """None: all values are null, each of which deletes its key."""
    headers: HeaderColumns | None = None
    timestamps_ms: array[int] | Buffer | None = None
    """int64, milliseconds since 1970; None: the time of encoding, for every row."""


class EncodedBatch(NamedTuple):
    """A finished record batch and where it is to go."""

    partition: int
    record_count: int
    data: bytearray


def check_room(bytes_max: int) -> None:
    """Raise BatchTooLarge if a column of so many bytes cannot be."""
    if bytes_max > COLUMN_BYTES_MAX:
        raise BatchTooLarge(
            f"The batches hold {bytes_max} bytes of records, columns {COLUMN_BYTES_MAX} at most: "
            f"decode fewer of them at a time."
        )
