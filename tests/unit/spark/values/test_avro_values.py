"""Avro values as typed columns. Hostile bytes are in tests/property."""

from __future__ import annotations

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa

from penstock.spark.values.avro_schema import read_avro_schema
from penstock.spark.values.avro_values import AvroParser

SCHEMA = {
    "type": "record",
    "name": "order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "small", "type": "int"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {
            "name": "items",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "item",
                    "fields": [
                        {"name": "sku", "type": "string"},
                        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
                    ],
                },
            },
        },
        {"name": "sizes", "type": {"type": "map", "values": "int"}},
    ],
}
MOMENT = datetime(2020, 2, 29, 12, tzinfo=UTC)
ROW = {
    "id": 1,
    "small": -5,
    "name": "x",
    "at": MOMENT,
    "day": date(2020, 2, 29),
    "price": Decimal("12.50"),
    "items": [{"sku": "a", "at": MOMENT}],
    "sizes": {"x": 1, "y": 2},
}


def encoded(row: dict[str, object]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(SCHEMA), row)
    return stream.getvalue()


def parse(
    *values: bytes | None, framed: bool = False
) -> tuple[list[dict[str, object]], list[object]]:
    parser = AvroParser(read_avro_schema(json.dumps(SCHEMA)), framed=framed)
    columns, corrupt = parser.parse(pa.array(values, pa.binary()))
    assert [column.type for column in columns] == parser.types
    return pa.table(columns, names=parser.schema.names).to_pylist(), corrupt.to_pylist()


def test_rows_with_logical_types() -> None:
    rows, corrupt = parse(encoded(ROW), None, encoded(ROW | {"name": None, "day": None}))
    expected = ROW | {"sizes": [("x", 1), ("y", 2)]}
    assert rows == [
        expected,
        dict.fromkeys(ROW),
        expected | {"name": None, "day": None},
    ]
    assert corrupt == [None, None, None]


def test_what_does_not_decode_is_corrupt() -> None:
    good = encoded(ROW)
    bad = [b"", good[:-1], good + b"\0", b"\xff" * 20, b"nonsense"]
    rows, corrupt = parse(good, *bad)
    assert [row["id"] for row in rows] == [1, None, None, None, None, None]
    assert corrupt == [None, *bad]


def test_numbers_beyond_their_type_are_corrupt() -> None:
    # The schema that it is read by says int; what is there is a long.
    long_schema = json.loads(
        json.dumps(SCHEMA).replace('"int"}, {"name": "name"', '"long"}, {"name": "name"')
    )
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(long_schema), ROW | {"small": 2**40})
    huge_time = encoded(ROW | {"at": 2**62})
    huge_price = encoded(ROW | {"price": (10**9).to_bytes(5, "big")})
    rows, corrupt = parse(stream.getvalue(), huge_time, huge_price, encoded(ROW))
    assert [row["id"] for row in rows] == [None, None, None, 1]
    assert [value is None for value in corrupt] == [False, False, False, True]


def test_confluent_s_header_is_skipped() -> None:
    header = b"\0\0\0\0\7"
    plain = encoded(ROW)
    other_magic = b"\1\0\0\0\7" + plain
    rows, corrupt = parse(header + plain, other_magic, header[:3], b"", framed=True)
    assert [row["id"] for row in rows] == [1, None, None, None]
    assert corrupt == [None, other_magic, header[:3], b""]


def test_it_travels() -> None:
    parser = AvroParser(read_avro_schema(json.dumps(SCHEMA)), framed=True)
    copy: AvroParser = pickle.loads(pickle.dumps(parser))
    assert copy.schema == parser.schema
    assert copy.parse(pa.array([b"\0\0\0\0\7" + encoded(ROW)], pa.binary()))[1].null_count == 1
