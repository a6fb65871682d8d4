"""The data source `penstock`, as Spark sees it: every topic is a table.

Only the way in: reading is in `batch_reader` and `stream_reader`, writing in `sink`. Spark pickles
the class and makes it in Python processes of its own, so it holds the options and nothing else.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from pyspark import InheritableThread
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from penstock.model.errors import InvalidConfig
from penstock.spark.option_values import warn_of_ignored
from penstock.spark.source.batch_reader import BatchReader, FilteringBatchReader
from penstock.spark.source.options import SourceOptions, check_batch, check_stream, parse_options
from penstock.spark.source.schema import source_schema
from penstock.spark.source.stream_reader import StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "penstock"
_PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
# Spark sets these when a stream starts, in a map that all streams of a source share, while it may
# be serializing tasks of another stream with that map. An entry that is new then spoils those tasks
# (OptionalDataException), so the entries are there from the beginning; their values are Spark's.
_SET_LATE: Final = (
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_LOCAL_DIRS",
    "SPARK_PYTHON_RUNTIME",
)

# The names of methods are Spark's.
# ruff: noqa: N802


def register(spark: SparkSession, source: type[PenstockDataSource] | None = None) -> None:
    """Let `format("penstock")` name topics in this session, and filters reach the source.

    source: one derived from PenstockDataSource, with a name of its own.

    In a `pyspark.InheritableThread`, also let that thread write: Spark looks for the format of a
    write in the session of the thread, and a new one has none."""
    spark.conf.set(_PUSHDOWN, "true")
    context = getattr(spark, "sparkContext", None)  # Spark Connect has none
    environment = {} if context is None else context.environment
    early = [name for name in _SET_LATE if name not in environment]
    environment.update(dict.fromkeys(early, ""))
    try:
        spark.dataSource.register(source or PenstockDataSource)
    finally:
        for name in early:
            del environment[name]
    # Not in any thread: one that did not inherit the properties of foreachBatch's could write its
    # rows without the names that keep them from being written twice.
    if context is not None and isinstance(threading.current_thread(), InheritableThread):
        spark._get_j_spark_session_class(spark._jvm).setActiveSession(spark._jsparkSession)  # noqa: SLF001


class PenstockDataSource(DataSource):
    """Topics as tables: batch and streaming, reading and writing."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """The columns of a read. Spark asks once, at `load()`: what is wrong is said there."""
        options = parse_options(self.options)
        warn_of_ignored(options.ignored)
        return source_schema(options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FilteringBatchReader(self._batch_options(schema), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = self._options(schema)
        check_stream(options, self.options)
        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from penstock.spark.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from penstock.spark.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)

    def _batch_options(self, schema: StructType) -> SourceOptions:
        options = self._options(schema)
        check_batch(options, self.options)
        return options

    def _options(self, schema: StructType) -> SourceOptions:
        options = parse_options(self.options)
        if schema != source_schema(options):
            raise InvalidConfig(
                "The columns of the data source penstock are fixed: leave out schema(), or give "
                "valueFormat and valueSchema to have typed columns."
            )
        return options


class DefaultSource(PenstockDataSource):
    """The same where nobody called `register`: Spark finds it by itself.

    Without filter pushdown, since Spark refuses a reader that has it in a session that does not
    ask for it.
    """

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(self._batch_options(schema), schema)
