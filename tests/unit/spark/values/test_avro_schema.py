"""Avro's schemas in Spark's types."""

from __future__ import annotations

import json

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.values.avro_schema import read_avro_schema


def record(*types: object) -> str:
    fields = [{"name": f"f{number}", "type": each} for number, each in enumerate(types)]
    return json.dumps({"type": "record", "name": "row", "namespace": "shop", "fields": fields})


def kinds(*types: object) -> list[str]:
    schema = read_avro_schema(record(*types)).schema
    assert all(field.nullable for field in schema)
    return [field.dataType.simpleString() for field in schema]


def logical(kind: str, name: str, **more: object) -> dict[str, object]:
    return {"type": kind, "logicalType": name, **more}


def test_each_type() -> None:
    primitives = ("boolean", "int", "long", "float", "double", "string", "bytes")
    assert kinds(*primitives) == ["boolean", "int", "bigint", "float", "double", "string", "binary"]
    assert kinds(
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
        logical("long", "local-timestamp-millis"),
        logical("bytes", "decimal", precision=9, scale=3),
        {"type": "fixed", "name": "d", "size": 4, "logicalType": "decimal", "precision": 5},
        logical("string", "uuid"),
        logical("int", "time-millis"),
        logical("long", "nobody-knows"),
    ) == [
        "date",
        "timestamp",
        "timestamp",
        "timestamp_ntz",
        "decimal(9,3)",
        "decimal(5,0)",
        "string",
        "int",
        "bigint",
    ]


def test_nested_and_named_types() -> None:
    inner = {"type": "record", "name": "item", "fields": [{"name": "n", "type": "int"}]}
    color = {"type": "enum", "name": "color", "symbols": ["RED"]}
    assert kinds(
        {"type": "array", "items": inner},
        "item",
        "shop.item",
        {"type": "map", "values": ["null", "long"]},
        color,
        {"type": "array", "items": "color"},
        {"type": "fixed", "name": "other.four", "size": 4},
        "other.four",
    ) == [
        "array<struct<n:int>>",
        "struct<n:int>",
        "struct<n:int>",
        "map<string,bigint>",
        "string",
        "array<string>",
        "binary",
        "binary",
    ]


def test_unions() -> None:
    assert kinds(["null", "int"], ["int", "null"], ["string"]) == ["int", "int", "string"]
    assert kinds(["int", "long"], ["null", "double", "float"]) == ["bigint", "double"]
    assert kinds(["null", logical("long", "timestamp-millis")]) == ["timestamp"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("nonsense", "no Avro schema"),
        ("[]", "no Avro schema|union"),
        ('"string"', "not a record"),
        ('{"type": "record"}', "no Avro schema"),
        (record("nobody"), "no Avro schema"),
        (record("null"), "always null"),
        (record(["int", "string"]), "union of several"),
        (record({"type": "array", "items": {"type": "fixed", "name": "z", "size": 0}}), "endless"),
        (record({"type": "array", "items": "null"}), "always null"),
        (record(logical("bytes", "decimal", precision=50)), "50 digits"),
        (record(["null", "shop.row"]), "within itself"),
    ],
)
def test_what_cannot_be_is_said(text: str, sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence):
        read_avro_schema(text)
