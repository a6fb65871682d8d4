"""`valueSchema` to the types of columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from penstock.model.errors import InvalidConfig
from penstock.spark.values.schema import arrow_types, read_schema

NESTED = StructType(
    [
        StructField("id", IntegerType(), nullable=False, metadata={"comment": "x"}),
        StructField("tags", ArrayType(StringType(), containsNull=False)),
        StructField("sizes", MapType(StringType(), IntegerType(), valueContainsNull=False)),
    ]
)


def test_json_and_ddl_say_the_same() -> None:
    ddl = read_schema("id INT, tags ARRAY<STRING>, sizes MAP<STRING, INT>")
    assert read_schema(NESTED.json()) == read_schema(f"\n {NESTED.json()}") == ddl


def test_everything_may_be_null() -> None:
    """A row that does not parse is null in every column."""
    schema = read_schema(NESTED.json())
    assert all(field.nullable and not field.metadata for field in schema)
    assert schema["tags"].dataType == ArrayType(StringType(), containsNull=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{}", "is none"),
        ("{nonsense", "is none"),
        ('{"type": "struct", "fields": [{"name": "a", "type": "nonsense"}]}', "is none"),
        ('{"type": "struct", "fields": []}', "needs fields"),
        (StructType([StructField("a", VariantType())]).json(), "'variant'"),
        ("a INT, A INT", "'a' twice"),
        ("a STRUCT<b: INT, b: INT>", "name of its own"),
        ("a MAP<INT, INT>", "keys of a MAP"),
    ],
)
def test_what_cannot_be_is_said(text: str, sentence: str) -> None:
    with pytest.raises(InvalidConfig, match=sentence):
        read_schema(text)


@pytest.mark.parametrize("kind", ["ARRAY<INT>", "MAP<STRING, INT>", "STRUCT<b: INT>", "BINARY"])
def test_csv_has_scalars_only(kind: str) -> None:
    assert read_schema(f"a {kind}")
    with pytest.raises(InvalidConfig, match="CSV cannot hold"):
        read_schema(f"a {kind}", flat=True)


def test_arrow_types_are_those_of_spark() -> None:
    schema = read_schema("a TIMESTAMP, b TIMESTAMP_NTZ, c ARRAY<DECIMAL(5,2)>, d MAP<STRING, DATE>")
    assert arrow_types(schema) == to_arrow_schema(schema, timezone="UTC").types
    assert arrow_types(schema)[0] == pa.timestamp("us", tz="UTC")
