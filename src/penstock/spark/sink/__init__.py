"""Writing to topics from Spark: `format("penstock")` of `df.write` and `df.writeStream`.

What Spark gets is made here, after everything that can be checked on the driver was checked.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from penstock.model.errors import InvalidRequest
from penstock.spark.sink.batch import BatchWriter
from penstock.spark.sink.columns import check_columns
from penstock.spark.sink.options import SinkOptions, parse_options
from penstock.spark.sink.stream import StreamWriter

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of one save; InvalidConfig or InvalidRequest says what is wrong with it."""
    if overwrite:
        raise InvalidRequest(
            'A topic is only ever appended to: use mode("append"), and delete the topic first if '
            "its messages are to go."
        )
    return BatchWriter(_checked(options, schema, is_streaming=False))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """The writer of one micro-batch; InvalidConfig or InvalidRequest says what is wrong.

    overwrite: output mode "complete". As to Spark's Kafka sink, the whole result is appended anew.
    """
    del overwrite
    return StreamWriter(_checked(options, schema, is_streaming=True))


def _checked(options: Mapping[str, str], schema: StructType, *, is_streaming: bool) -> SinkOptions:
    parsed = parse_options(options, is_streaming=is_streaming)
    check_columns(schema, parsed.topic)
    return parsed
