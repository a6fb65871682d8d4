"""Avro: each value one record in Avro's binary encoding, alone or behind Confluent's header.

Not a schema registry: the header's schema id is skipped, and every value is read by the one schema
that was given. A value is corrupt if it does not decode, or if bytes are left over.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any, Final

import fastavro
import pyarrow as pa

from penstock.spark.values.avro_schema import AvroSchema, read_avro_schema
from penstock.spark.values.blocks import Parsed, Unfit, parse_rows
from penstock.spark.values.schema import arrow_types

# Confluent's header: a zero, and the number of the schema in four bytes.
_HEADER_BYTES: Final = 5
_HEADER_MAGIC: Final = b"\0"


class AvroParser:
    """Implements `ValueParser`. Each value is decoded on its own: Avro has no other way."""

    def __init__(self, schema: AvroSchema, *, framed: bool = False) -> None:
        self.schema = schema.schema
        self.types = arrow_types(schema.schema)
        self._avro = schema
        self._framed = framed

    def __reduce__(self) -> tuple[Any, ...]:
        return _parser, (self._avro.text, self._framed)

    def parse(self, values: pa.BinaryArray) -> Parsed:
        return parse_rows(self, values)

    def row(self, value: bytes) -> tuple[object, ...]:
        stream = BytesIO(value)
        if self._framed and stream.read(_HEADER_BYTES)[:1] != _HEADER_MAGIC:
            raise Unfit
        try:
            record: Any = fastavro.schemaless_reader(stream, self._avro.decoding, None)
        except Exception as error:
            # Whatever a decoder of other people's makes of such bytes: the row does not parse.
            raise Unfit from error
        if stream.read(1):
            raise Unfit
        if self._avro.convert is not None:
            record = self._avro.convert(record)
        return tuple(record.values())


def _parser(schema_text: str, framed: bool) -> AvroParser:
    return AvroParser(read_avro_schema(schema_text), framed=framed)
