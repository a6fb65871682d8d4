"""Blocks of values: cut, refused, tried again, put together in their order."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.spark.values import blocks
from penstock.spark.values.blocks import Unfit, data_of, joined_lines, parse_blocks, parse_rows


class Numbers:
    """Decimal digits; those with a space are for the careful way, letters fit neither."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    @property
    def types(self) -> list[pa.DataType]:
        return [pa.int8()]

    def plain(self, values: pa.BinaryArray) -> pa.BooleanArray:
        return pc.fill_null(pc.invert(pc.match_substring(values, " ")), False)

    def fast(self, values: pa.BinaryArray) -> list[pa.Array] | None:
        self.calls.append(len(values))
        try:
            return [pc.cast(pc.cast(values, pa.string()), pa.int8())]
        except pa.ArrowInvalid:
            return None

    def row(self, value: bytes) -> list[object]:
        if value == b"deep":
            raise RecursionError
        if not value.strip().isdigit():
            raise Unfit
        return [int(value)]


def parse(*values: bytes | None) -> tuple[list[object], list[object], list[int]]:
    form = Numbers()
    (column,), corrupt = parse_blocks(form, pa.array(values, pa.binary()))
    assert column.type == pa.int8()
    return column.to_pylist(), corrupt.to_pylist(), form.calls


def test_plain_values_take_one_call() -> None:
    assert parse(*[b"1"] * 100) == ([1] * 100, [None] * 100, [100])


def test_rows_keep_their_order() -> None:
    numbers, corrupt, calls = parse(b"1", None, b" 2", b"3", b"x y", b"4")
    assert numbers == [1, None, 2, 3, None, 4]
    assert corrupt == [None, None, None, None, b"x y", None]
    assert calls == [3]


def test_a_bad_row_makes_only_its_neighbours_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PART_ROWS", 10)
    values = [b"%d" % (number % 100) for number in range(100)]
    values[37] = b"bad"
    numbers, corrupt, calls = parse(*values)
    assert [number for number in numbers if number is not None] == [
        number for number in range(100) if number != 37
    ]
    assert corrupt[37] == b"bad"
    assert calls == [100, *[10] * 10]


def test_numbers_that_their_type_has_no_room_for_are_corrupt() -> None:
    numbers, corrupt, _ = parse(b" 1", b" 300", b"deep ", b"300", b"2")
    assert numbers == [1, None, None, None, 2]
    assert corrupt == [None, b" 300", b"deep ", b"300", None]


def test_blocks_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_BLOCK_ROWS_MAX", 30)
    assert max(parse(*[b"1"] * 100)[2]) <= 30
    monkeypatch.setattr(blocks, "_BLOCK_BYTES_MAX", 10)
    numbers, _, calls = parse(*[b"12"] * 20, b"0" * 50 + b"7", b"8")
    assert numbers == [*[12] * 20, 7, 8]
    assert max(calls) <= 5


def test_no_values_at_all() -> None:
    assert parse() == ([], [], [])
    assert parse(None, None) == ([None, None], [None, None], [])
    columns, corrupt = parse_rows(Numbers(), pa.array([], pa.binary()))
    assert (len(columns), len(columns[0]), len(corrupt)) == (1, 0, 0)


def test_slices_are_taken_for_what_they_are() -> None:
    values = pa.array([b"a", b"bc", b"", b"d"], pa.binary())[1:3]
    assert data_of(values) == b"bc"
    assert data_of(values[:0]) == b""
    assert bytes(joined_lines(values)) == b"bc\n"
