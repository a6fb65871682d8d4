"""Many values at once where that is possible, one by one where it is not; the rows are the same.

A format has a fast way, which takes a block of plain values whole or refuses it, and a careful one,
which takes a single value and decides what is corrupt. The invariant: whatever the fast way accepts
the careful one would accept with the same result, so a row does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from penstock.model.limits import MIB

# The JSON reader takes 100,000 rows at most, and memory should stay in proportion.
_BLOCK_ROWS_MAX: Final = 50_000
_BLOCK_BYTES_MAX: Final = 16 * MIB
# A block that was refused is tried again in parts of so many rows: a bad row makes its neighbours
# slow, and a call of the fast way costs as much as some fifty rows of the careful one.
_PART_ROWS: Final = 256
# What Arrow raises for a Python object that its type cannot hold.
_UNFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError)

Row = Sequence[object]
Parsed = tuple[list[pa.Array], pa.BinaryArray]


class Unfit(ValueError):
    """The value is not what the schema says."""


class RowFormat(Protocol):
    """A format that has the careful way."""

    @property
    def types(self) -> list[pa.DataType]:
        """Of the columns, as Spark expects them."""

    def row(self, value: bytes) -> Row:
        """The columns of one value as Python objects that Arrow takes; ValueError if it does not
        fit."""


class Format(RowFormat, Protocol):
    """A format that has the fast way too."""

    def plain(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Which values the fast way may be tried with; false for null."""

    def fast(self, values: pa.BinaryArray) -> list[pa.Array] | None:
        """The columns of plain values, or None if one of them may not fit."""


def parse_blocks(form: Format, values: pa.BinaryArray) -> Parsed:
    """The columns of all values, and the corrupt ones among these."""
    return _joined([_parse(form, block) for block in _blocks(values)])


def parse_rows(form: RowFormat, values: pa.BinaryArray) -> Parsed:
    """The same by the careful way alone."""
    contents: list[bytes | None] = values.to_pylist()
    nothing: Row = (None,) * len(form.types)
    rows = [nothing if content is None else _row(form, content) for content in contents]
    try:
        columns = _columns(form, [nothing if row is None else row for row in rows])
    except _UNFIT:
        # A decoder may give numbers that their type has no room for.
        rows = [row if row is not None and _fits(form, row) else None for row in rows]
        columns = _columns(form, [nothing if row is None else row for row in rows])
    corrupt = [
        content if row is None else None for content, row in zip(contents, rows, strict=True)
    ]
    return columns, pa.array(corrupt, pa.binary())


def joined_lines(values: pa.BinaryArray) -> pa.Buffer:
    """The values as one text of lines."""
    bounds = pa.array([0, len(values)], pa.int32())
    return pc.binary_join(pa.ListArray.from_arrays(bounds, values), b"\n")[0].as_buffer()


def data_of(values: pa.BinaryArray) -> bytes:
    """The bytes of all values, end to end; of null ones there may be some too."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    bounds = memoryview(offsets).cast("i")
    return bytes(memoryview(data)[bounds[values.offset] : bounds[values.offset + len(values)]])


def _row(form: RowFormat, content: bytes) -> Row | None:
    try:
        return form.row(content)
    except (ValueError, RecursionError):
        return None


def _fits(form: RowFormat, row: Row) -> bool:
    try:
        _columns(form, [row])
    except _UNFIT:
        return False
    return True


def _columns(form: RowFormat, rows: Sequence[Row]) -> list[pa.Array]:
    if not rows:
        return [pa.array([], kind) for kind in form.types]
    by_column = zip(zip(*rows, strict=True), form.types, strict=True)
    return [pa.array(column, kind) for column, kind in by_column]


def _blocks(values: pa.BinaryArray) -> Iterator[pa.BinaryArray]:
    """The values in stretches of bounded size; a single one may be larger."""
    pending = [values]
    while pending:
        block = pending.pop()
        rows = len(block)
        too_large = rows > 1 and (pc.sum(pc.binary_length(block)).as_py() or 0) > _BLOCK_BYTES_MAX
        if rows > _BLOCK_ROWS_MAX or too_large:
            half = min(rows // 2, _BLOCK_ROWS_MAX)
            pending += (block[half:], block[:half])
        else:
            yield block


def _parse(form: Format, values: pa.BinaryArray) -> Parsed:
    plain = form.plain(values)
    plain_count = plain.true_count
    if not plain_count:
        return parse_rows(form, values)
    if plain_count < len(values):
        careful = pc.invert(plain)
        return _merged(
            plain,
            _parse_plain(form, values.filter(plain)),
            parse_rows(form, values.filter(careful)),
        )
    return _parse_plain(form, values)


def _parse_plain(form: Format, values: pa.BinaryArray) -> Parsed:
    columns = form.fast(values)
    if columns is not None:
        return columns, pa.nulls(len(values), pa.binary())
    if len(values) <= _PART_ROWS:
        return parse_rows(form, values)
    parts = [values[start : start + _PART_ROWS] for start in range(0, len(values), _PART_ROWS)]
    return _joined([_parse_plain(form, part) for part in parts])


def _joined(parts: Sequence[Parsed]) -> Parsed:
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part[0] for part in parts), strict=True)
    return [pa.concat_arrays(column) for column in columns], pa.concat_arrays(
        [part[1] for part in parts]
    )


def _merged(plain: pa.BooleanArray, first: Parsed, second: Parsed) -> Parsed:
    """The rows of both in the order in which the mask has taken them apart."""
    firsts = pc.cumulative_sum(pc.cast(plain, pa.int32()))
    seconds = pc.cumulative_sum(pc.cast(pc.invert(plain), pa.int32()))
    places = pc.subtract(pc.if_else(plain, firsts, pc.add(seconds, len(first[1]))), 1)
    columns = [
        pa.concat_arrays([one, other]).take(places)
        for one, other in zip(first[0], second[0], strict=True)
    ]
    return columns, pa.concat_arrays([first[1], second[1]]).take(places)
