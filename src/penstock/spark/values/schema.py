"""`valueSchema` as text to Spark's types: Spark's DDL, or the JSON of a StructType.

Not Avro's schemas: `avro_schema` reads those. The invariant: every field that comes out is of a
type the parsers know, has a name of its own, and can be null.
"""

from __future__ import annotations

import json
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from penstock.model.errors import InvalidConfig
from penstock.spark.values.ddl import SIMPLE, parse_ddl

# A decimal has a precision, and so is none of the simple ones.
_SCALARS: Final = (*SIMPLE.values(), DecimalType)


def read_schema(text: str, *, flat: bool = False) -> StructType:
    """The typed columns that the text describes; `flat`: of scalars only, as CSV has them."""
    if text.lstrip().startswith("{"):
        schema = _from_json(text)
    else:
        schema = parse_ddl(text)
    schema = nullable(schema)
    if flat:
        for field in schema:
            if isinstance(field.dataType, ArrayType | MapType | StructType | BinaryType):
                raise InvalidConfig(
                    f"valueSchema has {field.name!r} as {field.dataType.simpleString()}, which "
                    f"CSV cannot hold: read it as STRING, or use another valueFormat."
                )
    return schema


def nullable(schema: StructType) -> StructType:
    """The same columns, checked, and with null allowed everywhere."""
    nulls_allowed = _nullable(schema)
    assert isinstance(nulls_allowed, StructType)
    # Spark tells columns apart without their case.
    names = [name.lower() for name in nulls_allowed.names]
    for name in nulls_allowed.names:
        if names.count(name.lower()) > 1:
            raise InvalidConfig(f"valueSchema has the column {name!r} twice: rename one of them.")
    return nulls_allowed


def arrow_types(schema: StructType) -> list[pa.DataType]:
    """What Spark expects the columns to be, to the letter."""
    return list(to_arrow_schema(schema, timezone="UTC").types)


def _from_json(text: str) -> StructType:
    try:
        return StructType.fromJson(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise InvalidConfig(
            f"valueSchema begins like the JSON of a StructType and is none ({error!r}): take it "
            f"from df.schema.json(), or write it like 'id BIGINT, name STRING'."
        ) from error


def _nullable(data_type: DataType) -> DataType:
    match data_type:
        case StructType():
            if len(set(data_type.names)) != len(data_type.names) or not data_type.names:
                raise InvalidConfig(
                    f"valueSchema has {data_type.simpleString()[:200]!r}: a struct needs fields, "
                    f"each with a name of its own."
                )
            return StructType(
                [StructField(field.name, _nullable(field.dataType)) for field in data_type]
            )
        case ArrayType():
            return ArrayType(_nullable(data_type.elementType))
        case MapType():
            if type(data_type.keyType) is not StringType:
                raise InvalidConfig(
                    f"valueSchema has {data_type.simpleString()!r}: the keys of a MAP are STRING."
                )
            return MapType(StringType(), _nullable(data_type.valueType))
        case StringType():
            return StringType()
    if not isinstance(data_type, _SCALARS):
        raise InvalidConfig(
            f"valueSchema has the type {data_type.simpleString()!r}, which values cannot be read "
            f"as: read it as STRING."
        )
    return data_type
