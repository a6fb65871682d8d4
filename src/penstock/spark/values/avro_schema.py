"""An Avro schema as Spark's types, and what makes of decoded data what these expect.

The types are those of Spark's own Avro reader. Logical types are taken out of what the decoder is
given: it would make Python objects of numbers that Arrow takes as they are, and fail on those that
no calendar has. The invariant: no schema comes out for which a few bytes could mean endless data.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, Final

import fastavro
import fastavro.schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.model.errors import InvalidConfig
from penstock.spark.values.blocks import Unfit
from penstock.spark.values.scalars import LONG_MAX
from penstock.spark.values.schema import nullable

Convert = Callable[[Any], object]

_PRIMITIVES: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
}
_TIMES: Final[Mapping[str, tuple[DataType, int]]] = {
    "timestamp-millis": (TimestampType(), 1000),
    "timestamp-micros": (TimestampType(), 1),
    "local-timestamp-millis": (TimestampNTZType(), 1000),
    "local-timestamp-micros": (TimestampNTZType(), 1),
}
# Of a union of these, the wider one, as in Spark.
_WIDER: Final[Mapping[frozenset[str], str]] = {
    frozenset(("int", "long")): "long",
    frozenset(("float", "double")): "double",
}
_PRECISION_MAX: Final = 38


@dataclass(frozen=True, slots=True, kw_only=True)
class _Type:
    """A type of Avro's in Spark's terms."""

    spark: DataType
    plain: object
    """The Avro schema without logical types."""
    convert: Convert | None = None
    """None if decoded data fits as it is."""
    bytes_min: int = 1
    """The least that a datum takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvroSchema:
    """What a parser needs to know of a schema."""

    text: str
    schema: StructType
    decoding: object
    convert: Convert | None


def read_avro_schema(text: str) -> AvroSchema:
    """The columns of a record; InvalidConfig if it is none, or has what Spark has no type for."""
    try:
        declared = json.loads(text)
        # Names, defaults, symbols: all that makes no sense is refused by those who know Avro.
        fastavro.parse_schema(declared)
        found = _Names().type_of(declared, "")
        decoding = fastavro.parse_schema(found.plain)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _refused(f"is no Avro schema ({error!r})") from error
    except (fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise _refused(f"is no Avro schema ({error!r})") from error
    if not isinstance(found.spark, StructType):
        raise _refused("is not a record, whose fields could be columns")
    schema = nullable(found.spark)
    return AvroSchema(text=text, schema=schema, decoding=decoding, convert=found.convert)


def _refused(what: str) -> InvalidConfig:
    return InvalidConfig(f"valueSchema {what}: give the Avro schema, as JSON, of the values.")


class _Names:
    """The types of a schema, and those of them that have names."""

    def __init__(self) -> None:
        self._known: dict[str, _Type | None] = {}

    def type_of(self, declared: Any, namespace: str) -> _Type:
        if isinstance(declared, list):
            return self._union(declared, namespace)
        if isinstance(declared, str):
            return self._named(declared, namespace)
        kind = declared["type"]
        if not isinstance(kind, str):
            return self.type_of(kind, namespace)
        match kind:
            case "record" | "error":
                return self._record(declared, namespace)
            case "array":
                return self._array(declared, namespace)
            case "map":
                return self._map(declared, namespace)
            case "enum":
                return self._keep(declared, namespace, _Type(spark=StringType(), plain=declared))
            case "fixed":
                size = int(declared["size"])
                plain = {name: declared[name] for name in declared if name != "logicalType"}
                fixed = _Type(spark=BinaryType(), plain=plain, bytes_min=size)
                return self._keep(declared, namespace, _decimal(declared, fixed))
        return _logical(declared, self._named(kind, namespace))

    def _keep(self, declared: Any, namespace: str, found: _Type) -> _Type:
        name, _ = _full_name(declared, namespace)
        self._known[name] = found
        return found

    def _named(self, name: str, namespace: str) -> _Type:
        if name == "null":
            raise _refused("has a field that is always null")
        if name in _PRIMITIVES:
            least = {"float": 4, "double": 8}.get(name, 1)
            return _Type(spark=_PRIMITIVES[name], plain=name, bytes_min=least)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        known = self._known[full if full in self._known else name]
        if known is None:
            raise _refused(f"has {name!r} within itself, which no table can hold")
        # Where it is named again the decoder knows it by its name.
        return replace(known, plain=full if full in self._known else name)

    def _record(self, declared: Any, namespace: str) -> _Type:
        name, inner = _full_name(declared, namespace)
        self._known[name] = None
        fields = {field["name"]: self.type_of(field["type"], inner) for field in declared["fields"]}
        converts = {name: found.convert for name, found in fields.items() if found.convert}
        plain = {key: declared[key] for key in ("type", "name", "namespace") if key in declared}
        plain["fields"] = [{"name": key, "type": found.plain} for key, found in fields.items()]
        record = _Type(
            spark=StructType([StructField(key, found.spark) for key, found in fields.items()]),
            plain=plain,
            convert=partial(_members, converts=converts) if converts else None,
            bytes_min=sum(found.bytes_min for found in fields.values()),
        )
        self._known[name] = record
        return record

    def _array(self, declared: Any, namespace: str) -> _Type:
        items = self.type_of(declared["items"], namespace)
        if not items.bytes_min:
            raise _refused("has an array whose items take no bytes, so that it could be endless")
        return _Type(
            spark=ArrayType(items.spark),
            plain={"type": "array", "items": items.plain},
            convert=items.convert and partial(_elements, convert=items.convert),
        )

    def _map(self, declared: Any, namespace: str) -> _Type:
        values = self.type_of(declared["values"], namespace)
        return _Type(
            spark=MapType(StringType(), values.spark),
            plain={"type": "map", "values": values.plain},
            convert=partial(_entries, convert=values.convert),
        )

    def _union(self, branches: list[Any], namespace: str) -> _Type:
        wider = _WIDER.get(frozenset(map(str, branches)) - {"null"})
        if wider is not None:
            return _Type(spark=_PRIMITIVES[wider], plain=branches)
        real = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        if len(real) != 1:
            raise _refused("has a union of several types, which no column can hold")
        found = self.type_of(real[0], namespace)
        plain = [found.plain if branch is real[0] else "null" for branch in branches]
        convert = found.convert and partial(_optional, convert=found.convert)
        return replace(found, plain=plain, convert=convert, bytes_min=1)


def _full_name(declared: Any, namespace: str) -> tuple[str, str]:
    """The name with its namespace, and the namespace of what is inside."""
    name = declared["name"]
    if "." not in name:
        inner = declared.get("namespace", namespace)
        return (f"{inner}.{name}" if inner else name), inner
    return name, name.rpartition(".")[0]


def _logical(declared: Any, found: _Type) -> _Type:
    """The type as its logical type has it; one that is unknown or does not fit is ignored, as
    Avro's specification has it."""
    logical = declared.get("logicalType")
    if logical == "date" and isinstance(found.spark, IntegerType):
        return replace(found, spark=DateType())
    if logical in _TIMES and isinstance(found.spark, LongType):
        data_type, factor = _TIMES[logical]
        return replace(
            found,
            spark=data_type,
            convert=None if factor == 1 else partial(_scaled, factor=factor),
        )
    return _decimal(declared, found)


def _decimal(declared: Any, found: _Type) -> _Type:
    if declared.get("logicalType") != "decimal" or not isinstance(found.spark, BinaryType):
        return found
    precision, scale = int(declared["precision"]), int(declared.get("scale", 0))
    if not 1 <= precision <= _PRECISION_MAX or not 0 <= scale <= precision:
        raise _refused(f"has a decimal of {precision} digits, where {_PRECISION_MAX} is the limit")
    convert = partial(_unscaled, limit=10**precision, scale=scale)
    return replace(found, spark=DecimalType(precision, scale), convert=convert)


def _members(record: dict[str, Any], converts: dict[str, Convert]) -> dict[str, Any]:
    for name, convert in converts.items():
        record[name] = convert(record[name])
    return record


def _elements(items: list[Any], convert: Convert) -> list[object]:
    return [convert(item) for item in items]


def _entries(entries: dict[str, Any], convert: Convert | None) -> list[tuple[str, object]]:
    if convert is None:
        return list(entries.items())
    return [(key, convert(value)) for key, value in entries.items()]


def _optional(value: Any, convert: Convert) -> object:
    return None if value is None else convert(value)


def _scaled(value: int, factor: int) -> int:
    if abs(value) * factor > LONG_MAX:
        raise Unfit
    return value * factor


def _unscaled(value: bytes, limit: int, scale: int) -> Decimal:
    number = int.from_bytes(value, signed=True)
    if abs(number) >= limit:
        raise Unfit
    # From the digits: arithmetic would round to the context's precision.
    return Decimal(f"{number}e-{scale}")
