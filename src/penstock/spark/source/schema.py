"""The columns of the source, in order: those of Spark's Kafka source, and more where asked for.

The names and types are published in docs/spark.md. The invariant: the schema depends on the
options alone, so that the planner and every task find the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.model.errors import InvalidConfig
from penstock.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from penstock.spark.values import ValueParser

CORRUPT: Final = "_corrupt"

_HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
_MESSAGE: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
_BATCH: Final[dict[str, DataType]] = {
    "batchOffset": LongType(),
    "batchRecords": IntegerType(),
    "batchBytes": IntegerType(),
    "codec": StringType(),
    "producerId": LongType(),
    "producerEpoch": IntegerType(),
    "sequence": IntegerType(),
    "appendTime": TimestampType(),
    "createTime": TimestampType(),
}


def source_schema(options: SourceOptions) -> StructType:
    """The schema of a read with these options."""
    own: dict[str, DataType] = dict(_MESSAGE)
    if options.include_headers:
        own["headers"] = _HEADERS
    if options.include_batch:
        own |= _BATCH
    schema = StructType().add("key", BinaryType())
    parser = make_parser(options)
    if parser is None:
        schema = schema.add("value", BinaryType())
        return _added(schema, own)
    taken = {name.lower() for name in own}  # to Spark, names that differ in case are the same
    for field in parser.schema.fields:
        if field.name.lower() in taken:
            raise InvalidConfig(
                f"valueSchema has a column {field.name}, and so has includeBatch: give it another "
                f"name."
            )
        schema = schema.add(field)
    return _added(schema, own).add(CORRUPT, BinaryType())


def make_parser(options: SourceOptions) -> ValueParser | None:
    """What makes typed columns of values, where the options ask for it."""
    if options.value_format is None or options.value_schema is None:
        return None
    # Here, because few need it, and every process of Spark would pay for it at its start.
    from penstock.spark.values import value_parser

    return value_parser(options.value_format, options.value_schema, options.value_options)


def _added(schema: StructType, columns: dict[str, DataType]) -> StructType:
    for name, kind in columns.items():
        schema = schema.add(name, kind)
    return schema
