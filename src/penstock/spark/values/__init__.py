"""Messages' values as typed columns: `valueFormat` (json, csv, avro) with a `valueSchema`.

Import `value_parser` from here. Needs pyspark and pyarrow, and fastavro for Avro; it knows Arrow
arrays, not messages, and neither the client nor a session of Spark.
"""

from __future__ import annotations

from penstock.spark.values.parser import ValueParser, value_parser

__all__ = ["ValueParser", "value_parser"]
