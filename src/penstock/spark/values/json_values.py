"""JSON: each value one object, its members columns by their names.

Members that the schema does not name are ignored, those that are missing are null, as in Spark. A
value is corrupt if it is no object, has a member twice, or one that is not of its type. What NaN
and Infinity stand for, JSON cannot say: corrupt too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.model.limits import JSON_NESTING_MAX
from penstock.spark.values.blocks import Parsed, Unfit, data_of, joined_lines, parse_blocks
from penstock.spark.values.columns import has_maps, readable, restore
from penstock.spark.values.scalars import LONG_MAX, base64, from_text, integer, text
from penstock.spark.values.schema import arrow_types

Convert = Callable[[object], object]

# A line must be one value: for these Arrow's reader would refuse the whole block, or, for all that
# is promised, take a NUL for its end.
_BREAKS: Final = (b"\n", b"\0")
# Arrow's reader knows numbers that JSON does not. In a text they are rare behind one of these.
_NOT_NUMBERS: Final = (b"NaN", b"Inf")
_NOT_NUMBER: Final = r"[:,\[\s]-?(?:NaN|Inf)"
# A text that does not end is taken to the end too: or each quote in it would be tried in turn.
_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_SECOND_MICROSECONDS: Final = 1_000_000


class JsonParser:
    """Implements `ValueParser`, and `Format` for its own two ways."""

    def __init__(self, schema: StructType) -> None:
        self.schema = schema
        self.types = arrow_types(schema)
        self._row = partial(_members, fields=_converters(schema))
        self._reading = pa.schema(
            [(name, readable(kind)) for name, kind in zip(schema.names, self.types, strict=True)]
        )
        self._has_fast_way = not any(has_maps(kind) for kind in self.types)

    def __reduce__(self) -> tuple[type[JsonParser], tuple[StructType]]:
        return JsonParser, (self.schema,)

    def parse(self, values: pa.BinaryArray) -> Parsed:
        return parse_blocks(self, values)

    def plain(self, values: pa.BinaryArray) -> pa.BooleanArray:
        """Those that begin and end like an object, without what could hide a second one: then each
        line gives a row at least, and as many rows as lines are one of each."""
        if not self._has_fast_way:
            return pa.repeat(False, len(values))
        plain = pc.and_(pc.starts_with(values, "{"), pc.ends_with(values, "}"))
        data = data_of(values)
        for mark in _BREAKS:
            if mark in data:
                plain = pc.and_not(plain, pc.match_substring(values, mark))
        if any(mark in data for mark in _NOT_NUMBERS):
            plain = pc.and_not(plain, pc.match_substring_regex(values, _NOT_NUMBER))
        longest = pc.max(pc.binary_length(values)).as_py()
        if longest is not None and longest > JSON_NESTING_MAX:
            brackets = pc.add(pc.count_substring(values, "{"), pc.count_substring(values, "["))
            plain = pc.and_(plain, pc.less_equal(brackets, JSON_NESTING_MAX))
        return pc.fill_null(plain, False)

    def fast(self, values: pa.BinaryArray) -> list[pa.Array] | None:
        try:
            # Arrow's reader does not look whether text is UTF-8.
            pc.cast(values, pa.string())
            lines = joined_lines(values)
            table = pyarrow.json.read_json(
                pa.BufferReader(lines),
                pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1),
                pyarrow.json.ParseOptions(
                    explicit_schema=self._reading, unexpected_field_behavior="ignore"
                ),
            )
            if len(table) != len(values):
                return None
            columns = [column.combine_chunks() for column in table.columns]
            return [restore(*each) for each in zip(columns, self.types, strict=True)]
        except (pa.ArrowInvalid, ValueError):
            return None

    def row(self, value: bytes) -> tuple[object, ...]:
        content = value.decode()
        _check_nesting(content)
        return tuple(self._row(_DECODER.decode(content)).values())


class _Number(str):
    """A number as it is written: what it is depends on its column."""

    __slots__ = ()


class _Members(list[tuple[str, object]]):
    """The members of an object in their order."""

    __slots__ = ()


def _no_number(literal: str) -> object:
    raise Unfit(literal)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_Members, parse_int=_Number, parse_float=_Number, parse_constant=_no_number
)


def _check_nesting(content: str) -> None:
    """Raise Unfit beyond what can be taken apart without a stack as deep."""
    if content.count("{") + content.count("[") <= JSON_NESTING_MAX:
        return
    depth = 0
    for match in _BRACKET.finditer(content):
        bracket = match[0]
        if bracket in "[{":
            depth += 1
            if depth > JSON_NESTING_MAX:
                raise Unfit
        elif bracket in "]}":
            depth -= 1


def _converters(schema: StructType) -> dict[str, Convert]:
    return {field.name: _converter(field.dataType) for field in schema}


def _converter(data_type: DataType) -> Convert:
    match data_type:
        case StructType():
            return partial(_members, fields=_converters(data_type))
        case ArrayType():
            return partial(_elements, convert=_converter(data_type.elementType))
        case MapType():
            return partial(_entries, convert=_converter(data_type.valueType))
        case StringType():
            return _text
        case BinaryType():
            return partial(_from_text, convert=base64)
        case DateType():
            return partial(_from_text, convert=from_text(data_type))
        case TimestampType() | TimestampNTZType():
            return partial(_timestamp, convert=from_text(data_type))
        case DecimalType():
            return partial(_decimal, convert=from_text(data_type))
        case BooleanType():
            return _boolean
    return partial(_number, convert=from_text(data_type))


def _members(value: object, fields: dict[str, Convert]) -> dict[str, object]:
    if not isinstance(value, _Members):
        raise Unfit
    found: dict[str, object] = dict.fromkeys(fields)
    seen = set()
    for name, member in value:
        convert = fields.get(name)
        if convert is not None:
            if name in seen:
                raise Unfit
            seen.add(name)
            if member is not None:
                found[name] = convert(member)
    return found


def _elements(value: object, convert: Convert) -> list[object]:
    if not isinstance(value, list) or isinstance(value, _Members):
        raise Unfit
    return [None if element is None else convert(element) for element in value]


def _entries(value: object, convert: Convert) -> list[tuple[str, object]]:
    if not isinstance(value, _Members) or len({name for name, _ in value}) != len(value):
        raise Unfit
    return [(text(name), None if item is None else convert(item)) for name, item in value]


def _text(value: object) -> str:
    """Text as it is, anything else as the JSON it is, as Spark does."""
    return text(value if isinstance(value, str) else _dumped(value))


def _from_text(value: object, convert: Callable[[str], object]) -> object:
    if type(value) is not str:
        raise Unfit
    return convert(value)


def _number(value: object, convert: Callable[[str], object]) -> object:
    if not isinstance(value, _Number):
        raise Unfit
    return convert(value)


def _decimal(value: object, convert: Callable[[str], object]) -> object:
    if not isinstance(value, str):
        raise Unfit
    return convert(value)


def _timestamp(value: object, convert: Callable[[str], object]) -> object:
    """ISO 8601, or whole seconds since 1970, as in Spark."""
    if isinstance(value, _Number):
        moment = integer(value, bits=64) * _SECOND_MICROSECONDS
        if abs(moment) > LONG_MAX:
            raise Unfit
        return moment
    return _from_text(value, convert)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit
    return value


def _dumped(value: object) -> str:
    match value:
        case _Members():
            members = (f"{_dumped(name)}:{_dumped(member)}" for name, member in value)
            return f"{{{','.join(members)}}}"
        case list():
            return f"[{','.join(map(_dumped, value))}]"
        case _Number():
            return value
    return json.dumps(value, ensure_ascii=False)
