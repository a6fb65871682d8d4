"""CSV values as typed columns. That the two ways agree is in tests/property."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.spark.values.csv_values import CsvParser
from penstock.spark.values.schema import read_schema


def parse(
    ddl: str, *values: bytes | None, delimiter: str = ","
) -> tuple[list[tuple[object, ...]], list[bytes | None]]:
    parser = CsvParser(read_schema(ddl, flat=True), delimiter)
    columns, corrupt = parser.parse(pa.array(values, pa.binary()))
    assert [column.type for column in columns] == parser.types
    return list(zip(*(column.to_pylist() for column in columns), strict=True)), corrupt.to_pylist()


def test_columns_by_their_places() -> None:
    rows, corrupt = parse(
        "id INT, name STRING, at TIMESTAMP",
        b"1,x,2020-01-01T00:00:00Z",
        b"2,,",
        None,
        b",,",
        b"\xc3\xa9,\xff,",
    )
    assert [row[:2] for row in rows] == [
        (1, "x"),
        (2, None),
        (None, None),
        (None, None),
        (None,) * 2,
    ]
    assert str(rows[0][2]) == "2020-01-01 00:00:00+00:00"
    assert corrupt == [None, None, None, None, b"\xc3\xa9,\xff,"]


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (b'1,"a,b"', (1, "a,b")),
        (b'1,"a ""b"""', (1, 'a "b"')),
        (b'"1",""', (1, "")),
        (b'1,"a\nb"', (1, "a\nb")),
        (b'1,a "b"', (1, 'a "b"')),
        (b"1,a\r\n", (1, "a")),
        (b"1,a\n", (1, "a")),
        (b"1, a ", (1, " a ")),
    ],
)
def test_quotes_and_ends_of_lines(value: bytes, row: tuple[object, ...]) -> None:
    assert parse("a INT, b STRING", value) == ([row], [None])


@pytest.mark.parametrize(
    "value",
    [b"", b"1", b"1,2,3", b"x,2", b'1,"a', b'1,"a"b', b"1,a\nb", b"1,a\n\n", b" 1,a", b"1;a"],
)
def test_what_does_not_fit_is_corrupt(value: bytes) -> None:
    rows, corrupt = parse("a INT, b STRING", b"1,a", value)
    assert rows == [(1, "a"), (None, None)]
    assert corrupt == [None, value]


def test_one_column_and_another_delimiter() -> None:
    assert parse("a STRING", b"x", b"", b"y") == ([("x",), (None,), ("y",)], [None] * 3)
    assert parse("a INT, b INT", b"1|2", delimiter="|") == ([(1, 2)], [None])
    assert parse("a INT, b INT", b"1\t2", delimiter="\t") == ([(1, 2)], [None])


def test_it_travels() -> None:
    parser = CsvParser(read_schema("a INT, b INT"), ";")
    copy: CsvParser = pickle.loads(pickle.dumps(parser))
    assert copy.parse(pa.array([b"1;2"], pa.binary()))[1].null_count == 1
