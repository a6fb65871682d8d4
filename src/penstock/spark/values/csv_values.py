"""CSV: each value one line, its fields columns by their places.

An empty field is null, `""` is an empty text, and quotes are doubled inside quotes, as in Spark. A
value is corrupt if it has more or fewer fields than the schema, or one that is not of its type.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql.types import StructType

from penstock.spark.values.blocks import Parsed, Unfit, data_of, joined_lines, parse_blocks
from penstock.spark.values.columns import cast_text
from penstock.spark.values.scalars import from_text
from penstock.spark.values.schema import arrow_types

_QUOTE: Final = '"'
# With any of these a line is not simply what stands between the delimiters.
_NOT_PLAIN: Final = (b'"', b"\n", b"\r", b"\0")
# Arrow's reader drops it from the first line.
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_QUOTED: Final = re.compile(r'"((?:[^"]|"")*)"')


class CsvParser:
    """Implements `ValueParser`, and `Format` for its own two ways."""

    def __init__(self, schema: StructType, delimiter: str = ",") -> None:
        self.schema = schema
        self.types = arrow_types(schema)
        self._delimiter = delimiter
        self._converters = [from_text(field.dataType) for field in schema]
        self._names = [str(number) for number in range(len(schema))]

    def __reduce__(self) -> tuple[type[CsvParser], tuple[StructType, str]]:
        return CsvParser, (self.schema, self._delimiter)

    def parse(self, values: pa.BinaryArray) -> Parsed:
        return parse_blocks(self, values)

    def plain(self, values: pa.BinaryArray) -> pa.BooleanArray:
        # An empty line is as many nulls to Arrow's reader as there are columns.
        plain = pc.greater(pc.binary_length(values), 0)
        data = data_of(values)
        for mark in (*_NOT_PLAIN, _BYTE_ORDER_MARK):
            if mark in data:
                plain = pc.and_not(plain, pc.match_substring(values, mark))
        return pc.fill_null(plain, False)

    def fast(self, values: pa.BinaryArray) -> list[pa.Array] | None:
        try:
            lines = joined_lines(values)
            table = pyarrow.csv.read_csv(
                pa.BufferReader(lines),
                pyarrow.csv.ReadOptions(
                    use_threads=False, block_size=lines.size + 1, column_names=self._names
                ),
                pyarrow.csv.ParseOptions(
                    delimiter=self._delimiter, quote_char=False, ignore_empty_lines=False
                ),
                pyarrow.csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.string()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            if len(table) != len(values):
                return None
            columns = [column.combine_chunks() for column in table.columns]
            return [cast_text(*each) for each in zip(columns, self.types, strict=True)]
        except (pa.ArrowInvalid, ValueError):
            return None

    def row(self, value: bytes) -> list[object]:
        fields = self._fields(value.decode())
        if len(fields) != len(self._converters):
            raise Unfit
        return [
            None if field is None else convert(field)
            for field, convert in zip(fields, self._converters, strict=True)
        ]

    def _fields(self, line: str) -> list[str | None]:
        # Whoever sends lines may have left their ends on.
        line = line.removesuffix("\n").removesuffix("\r")
        fields: list[str | None] = []
        position = 0
        while True:
            quoted = _QUOTED.match(line, position)
            if quoted is not None:
                fields.append(quoted[1].replace('""', _QUOTE))
                end = quoted.end()
            else:
                end = line.find(self._delimiter, position)
                end = len(line) if end < 0 else end
                field = line[position:end]
                if field.startswith(_QUOTE) or "\n" in field or "\r" in field:
                    raise Unfit
                fields.append(field or None)
            if end == len(line):
                return fields
            if line[end] != self._delimiter:
                raise Unfit
            position = end + 1
