"""JSON values as typed columns. That the two ways agree is in tests/property."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from penstock.model.limits import JSON_NESTING_MAX
from penstock.spark.values.json_values import JsonParser
from penstock.spark.values.schema import read_schema


def parse(ddl: str, *values: bytes | None) -> tuple[list[dict[str, object]], list[bytes | None]]:
    """Rows, and what is corrupt."""
    parser = JsonParser(read_schema(ddl))
    columns, corrupt = parser.parse(pa.array(values, pa.binary()))
    assert [column.type for column in columns] == parser.types
    table = pa.table(columns, names=parser.schema.names)
    return table.to_pylist(), corrupt.to_pylist()


def one(kind: str, text: str) -> object:
    """The value of a member of this type; an assertion fails if it is corrupt."""
    rows, corrupt = parse(f"a {kind}", f'{{"a":{text}}}'.encode())
    assert corrupt == [None], corrupt
    return rows[0]["a"]


def is_corrupt(kind: str, text: str) -> bool:
    value = f'{{"a":{text}}}'.encode()
    rows, corrupt = parse(f"a {kind}", value)
    assert corrupt == [None] or rows == [{"a": None}]
    return corrupt == [value]


def test_rows_of_all_kinds() -> None:
    rows, corrupt = parse(
        "id BIGINT, name STRING",
        b'{"id":1,"name":"x"}',
        b'{"name":"y","other":[1,{}]}',
        b"{}",
        None,
        b"nonsense",
        b"[1]",
        b'{"id":"1"}',
        b"",
        b' {"id": 2}\n',
    )
    empty = {"id": None, "name": None}
    assert rows == [
        {"id": 1, "name": "x"},
        {"id": None, "name": "y"},
        *[empty] * 6,
        {"id": 2, "name": None},
    ]
    assert corrupt == [*[None] * 4, b"nonsense", b"[1]", b'{"id":"1"}', b"", None]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("TINYINT", "-128", "-128"),
        ("DOUBLE", "1", "1.0"),
        ("FLOAT", "0.1", "0.10000000149011612"),
        ("DECIMAL(5,2)", "1.005", "1.01"),
        ("DECIMAL(5,2)", '"12.5"', "12.50"),
        ("STRING", "1.50", "1.50"),
        ("STRING", "true", "true"),
        ("STRING", '{"b": [1.0, "é"]}', '{"b":[1.0,"é"]}'),
        ("BOOLEAN", "false", "False"),
        ("BINARY", '"YWI="', "b'ab'"),
        ("DATE", '"2020-02-29"', "2020-02-29"),
        ("TIMESTAMP", '"2020-02-29T12:00:00+02:00"', "2020-02-29 10:00:00+00:00"),
        ("TIMESTAMP", '"2020-02-29 12:00:00"', "2020-02-29 12:00:00+00:00"),
        ("TIMESTAMP", "60", "1970-01-01 00:01:00+00:00"),
        ("TIMESTAMP_NTZ", '"2020-02-29T12:00:00"', "2020-02-29 12:00:00"),
        ("ARRAY<INT>", "[1, null]", "[1, None]"),
        ("MAP<STRING, DATE>", '{"x": null}', "[('x', None)]"),
        ("STRUCT<b: INT>", '{"b": 1, "c": 2}', "{'b': 1}"),
        ("STRUCT<b: INT>", "null", "None"),
    ],
)
def test_values_of_each_type(kind: str, text: str, value: str) -> None:
    assert str(one(kind, text)) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "1.0"),
        ("INT", '"1"'),
        ("INT", "2147483648"),
        ("BIGINT", "9" * 5000),
        ("DOUBLE", "NaN"),
        ("DOUBLE", '"1.5"'),
        ("DOUBLE", "1e400"),
        ("FLOAT", "1e39"),
        ("DECIMAL(5,2)", "1000"),
        ("STRING", r'"\ud800"'),
        ("BOOLEAN", "1"),
        ("BINARY", '"YWI"'),
        ("DATE", '"29.02.2020"'),
        ("DATE", "1"),
        ("TIMESTAMP", '"noon"'),
        ("TIMESTAMP", "1.5"),
        ("TIMESTAMP", "9" * 15),
        ("ARRAY<INT>", "1"),
        ("ARRAY<INT>", '["x"]'),
        ("ARRAY<INT>", "{}"),
        ("MAP<STRING, INT>", '{"x":1,"x":2}'),
        ("MAP<STRING, INT>", "[]"),
        ("STRUCT<b: INT>", "[1]"),
        ("STRUCT<b: INT>", '{"b":1,"b":1}'),
        ("STRUCT<b: INT>", '{"b":"x"}'),
    ],
)
def test_what_does_not_fit_is_corrupt_as_a_whole(kind: str, text: str) -> None:
    assert is_corrupt(kind, text)


@pytest.mark.parametrize(
    "value",
    [
        b'{"a":1,"a":1}',
        b'{"a":1}{"a":2}',
        b'{"a":1}\0',
        b'{"a":1,}',
        b'{"a":NaN}',
        b'{"other":NaN}',
        b'{"other":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}'.decode().encode("utf-16"),
        b"{" * 100_000,
        b"{" * 1000 + b'"' + b'\\"' * 500_000 + b"}",
        b'{"other":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"null",
    ],
)
def test_hostile_values_are_corrupt(value: bytes) -> None:
    rows, corrupt = parse("a INT", b'{"a":1}', value, b'{"a":2}')
    assert rows == [{"a": 1}, {"a": None}, {"a": 2}]
    assert corrupt == [None, value, None]


def test_nesting_has_a_limit_by_both_ways() -> None:
    def nested(depth: int) -> str:
        return f'{{"a":1,"other":{"[" * (depth - 1)}{"]" * (depth - 1)}}}'

    wide = json.dumps({"a": 1, "other": [[]] * 2 * JSON_NESTING_MAX, "text": "[" * 1000})
    for ddl in ("a INT", "a INT, m MAP<STRING, INT>"):
        values = [nested(JSON_NESTING_MAX), nested(JSON_NESTING_MAX + 1), wide]
        rows, corrupt = parse(ddl, *(value.encode() for value in values))
        assert [row["a"] for row in rows] == [1, None, 1]
        assert [value is None for value in corrupt] == [True, False, True]


def test_an_object_of_any_depth_may_be_read_as_text() -> None:
    deep = "[" * (JSON_NESTING_MAX - 1) + "]" * (JSON_NESTING_MAX - 1)
    assert one("STRING", deep) == deep


def test_many_rows_with_few_bad_ones() -> None:
    values: list[bytes | None] = [b'{"a":%d}' % number for number in range(60_000)]
    values[30_000] = b'{"a":"x"}'
    rows, corrupt = parse("a INT", *values)
    assert [row["a"] for row in rows if row["a"] is not None] == [
        number for number in range(60_000) if number != 30_000
    ]
    assert [row for row, value in enumerate(corrupt) if value is not None] == [30_000]


def test_it_travels() -> None:
    parser = JsonParser(read_schema("a ARRAY<STRUCT<b: DATE>>"))
    copy: JsonParser = pickle.loads(pickle.dumps(parser))
    assert (copy.schema, copy.types) == (parser.schema, parser.types)
