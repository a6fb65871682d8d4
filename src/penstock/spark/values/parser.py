"""From the options `valueFormat` and `valueSchema` to what takes values apart.

Not the parsing itself: each format has its module. The invariant: what is wrong with the options is
said in one sentence before any row is read, and a parser that was made never fails on a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from penstock.model.errors import InvalidConfig
from penstock.spark.values.avro_schema import read_avro_schema
from penstock.spark.values.avro_values import AvroParser
from penstock.spark.values.csv_values import CsvParser
from penstock.spark.values.json_values import JsonParser
from penstock.spark.values.schema import read_schema

DELIMITER_OPTION: Final = "csvDelimiter"
FRAMING_OPTION: Final = "avroFraming"
CONFLUENT: Final = "confluent"
CORRUPT: Final = "_corrupt"
# What the source has beside the typed columns. Spark tells names apart without their case.
_TAKEN: Final = frozenset(
    ("key", "topic", "partition", "offset", "timestamp", "timestamptype", "headers", CORRUPT)
)
_NOT_DELIMITERS: Final = ('"', "\n", "\r", "\0")


class ValueParser(Protocol):
    """Takes the values of messages apart. It is pickled to where the rows are read."""

    @property
    def schema(self) -> StructType:
        """The typed columns."""

    def parse(self, values: pa.BinaryArray) -> tuple[list[pa.Array], pa.BinaryArray]:
        """A column for each field of the schema, in Spark's Arrow types, and the values that do not
        parse: their bytes, null for the others. In a row that does not parse every column is null,
        and so it is where there is no value, which is not corrupt."""


def value_parser(format_name: str, schema_text: str, options: Mapping[str, str]) -> ValueParser:
    """The parser that the options ask for; InvalidConfig if they make no sense."""
    given = {name.lower(): value for name, value in options.items()}
    parser: ValueParser
    match format_name.lower():
        case "json":
            parser = JsonParser(read_schema(schema_text))
        case "csv":
            parser = CsvParser(read_schema(schema_text, flat=True), _delimiter(given))
        case "avro":
            parser = AvroParser(read_avro_schema(schema_text), framed=_is_framed(given))
        case _:
            raise InvalidConfig(f"valueFormat is {format_name!r}: it can be json, csv or avro.")
    for name in parser.schema.names:
        if name.lower() in _TAKEN:
            raise InvalidConfig(
                f"valueSchema has a column {name!r}, and so has the source: leave it out, or read "
                f"the values without valueFormat and use Spark's from_{format_name.lower()}."
            )
    return parser


def _delimiter(given: Mapping[str, str]) -> str:
    delimiter = given.get(DELIMITER_OPTION.lower(), ",")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in _NOT_DELIMITERS:
        raise InvalidConfig(
            f"{DELIMITER_OPTION} is {delimiter!r}: it must be one ASCII character, and neither a "
            f"quote nor an end of line."
        )
    return delimiter


def _is_framed(given: Mapping[str, str]) -> bool:
    framing = given.get(FRAMING_OPTION.lower())
    if framing is not None and framing.lower() != CONFLUENT:
        raise InvalidConfig(
            f"{FRAMING_OPTION} is {framing!r}: it can be {CONFLUENT}, or be left out."
        )
    return framing is not None
