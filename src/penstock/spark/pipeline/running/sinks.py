"""Starts what a pipeline's sinks ask for: a query each in a stream, a write each in a batch.

The invariant: rows reach topics and Parquet folders exactly once, also when the driver is killed
and the pipeline is run again: topics by the data source's own way, folders by table.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.model.errors import UnavailableError
from penstock.spark.pipeline.declared.locations import for_spark, is_url, local_path
from penstock.spark.pipeline.declared.spec import (
    ConsoleSink,
    ParquetSink,
    Pipeline,
    Sink,
    TopicSink,
    Trigger,
)
from penstock.spark.pipeline.running.errors import sentence
from penstock.spark.pipeline.running.existing import check_here, check_there, checkpoint_of
from penstock.spark.pipeline.running.frames import Frames, part
from penstock.spark.pipeline.running.watch import await_sources
from penstock.spark.pipeline.tables.table import ParquetTable, Write
from penstock.spark.sink.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Show = Callable[[str, Sequence[str], Sequence[Sequence[object]]], None]
"""What shows rows of a console sink: its name, the columns, the rows."""

Handle = Callable[["DataFrame", int], None]
"""What foreachBatch takes: a batch and its number."""

_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(slots=True)
class Opened:
    """The folders that a pipeline's Parquet sinks write to, locked; a sink of a URL has none."""

    tables: dict[str, ParquetTable] = field(default_factory=dict)


@contextmanager
def opened(pipeline: Pipeline) -> Iterator[Opened]:
    """Lock the folders and finish what a killed run had decided, before Spark starts anything."""
    with ExitStack() as stack:
        tables: dict[str, ParquetTable] = {}
        for sink in pipeline.sinks:
            if isinstance(sink, ParquetSink) and not is_url(sink.path):
                table = stack.enter_context(ParquetTable(local_path(sink.path)))
                check_here(pipeline, sink, table)
                tables[sink.name] = table
        yield Opened(tables)


def start_query(
    pipeline: Pipeline, sink: Sink, frames: Frames, tables: Opened, show: Show
) -> StreamingQuery:
    """A streaming query, under its own folder of the checkpoint."""
    with part(f"sinks.{sink.name}"):
        frame = frames[sink.input.lower()]
        match sink:
            case TopicSink(output_mode="update"):
                writer = frame.writeStream.outputMode("update")
                writer = writer.foreachBatch(one_sentence(_topic_writer(sink)))
            case TopicSink():
                writer = _shaped(frame, sink).writeStream.format("penstock")
                writer = writer.options(**sink.options).outputMode(sink.output_mode)
            case ConsoleSink():
                writer = frame.writeStream.outputMode(sink.output_mode)
                writer = writer.foreachBatch(one_sentence(_shower(sink, show)))
            case ParquetSink():
                table = tables.tables.get(sink.name)
                check_there(pipeline, sink, table, frame.sparkSession)
                writer = _parquet_stream(frame, sink, table)
        checkpoint = for_spark(checkpoint_of(pipeline, sink.name))
        writer = writer.option("checkpointLocation", checkpoint)
        return await_sources(triggered(writer, pipeline.trigger).start())


def write_batch(sink: Sink, frames: Frames, tables: Opened, show: Show) -> None:
    """All rows, once."""
    with part(f"sinks.{sink.name}"):
        frame = frames[sink.input.lower()]
        match sink:
            case TopicSink():
                writer = _shaped(frame, sink).write.format("penstock")
                writer.options(**sink.options).mode("append").save()
            case ConsoleSink():
                rows = frame.limit(sink.rows_max).collect()
                show(sink.name, frame.columns, [list(row) for row in rows])
            case ParquetSink() if (table := tables.tables.get(sink.name)) is not None:
                table.add(_file_writer(frame, sink), is_replacing=sink.if_exists == "overwrite")
            case ParquetSink():
                _partitioned(frame, sink).mode(sink.if_exists).parquet(sink.path)


def triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger.kind:
        case "available-now":
            return writer.trigger(availableNow=True)
        case "once":
            return writer.trigger(once=True)
        case "interval":
            return writer.trigger(processingTime=f"{trigger.interval_ms} milliseconds")


def _topic_writer(sink: TopicSink) -> Handle:
    """For update mode, which Spark has not for sinks in Python: a batch at a time, exactly once by
    the query's id and the batch's number, as the sink itself does it."""
    is_exactly_once = parse_options(sink.options, is_streaming=False).is_exactly_once

    def write(batch: DataFrame, number: int) -> None:
        writer = _shaped(batch, sink).write.format("penstock").options(**sink.options)
        if is_exactly_once:
            writer = writer.option("txnAppId", f"spark/{query_id(batch)}")
            writer = writer.option("txnVersion", str(number))
        writer.mode("append").save()

    return write


def query_id(frame: DataFrame) -> str:
    """Of the query that a batch is of. It is kept in the checkpoint, so a restart has the same."""
    found = frame.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    assert found is not None, "only within foreachBatch"
    return found


def one_sentence(handle: Handle) -> Handle:
    """For foreachBatch: let a failure be a short text. Spark looks for words in it by a regular
    expression that overflows the stack on a long one; then its thread dies and the query seems to
    run for ever."""

    def run(batch: DataFrame, number: int) -> None:
        try:
            handle(batch, number)
        except Exception as error:
            raise UnavailableError(sentence(error)) from None

    return run


def _shaped(frame: DataFrame, sink: TopicSink) -> DataFrame:
    """The columns that a topic takes."""
    from pyspark.sql.functions import expr, struct, to_json

    if not sink.is_json:
        return frame
    value = to_json(struct("*")).alias("value")
    if sink.key is None:
        return frame.select(value)
    # All of the text within the cast: alone, Spark takes a word that is left over for a name. And a
    # comment may be its end.
    return frame.select(expr(f"CAST({sink.key}\n AS STRING)").alias("key"), value)


def _shower(sink: ConsoleSink, show: Show) -> Handle:
    def show_rows(frame: DataFrame, _batch: int) -> None:
        from pyspark.sql.functions import monotonically_increasing_id

        # The first rows, as they come; but unlike a limit alone, which is content when it has
        # them, this reads all rows of all partitions: else Spark misses the rest of their state.
        ordered = frame.orderBy(monotonically_increasing_id())
        rows = ordered.limit(sink.rows_max).collect()
        if rows:
            show(sink.name, frame.columns, [list(row) for row in rows])

    return show_rows


def _parquet_stream(
    frame: DataFrame, sink: ParquetSink, table: ParquetTable | None
) -> DataStreamWriter:
    if table is None:
        # No renames to rest on there: Spark's own way, whose files Spark alone reads exactly once.
        writer = frame.writeStream.format("parquet").options(**sink.options)
        return writer.option("path", sink.path).partitionBy(*sink.partition_by)

    def add(batch: DataFrame, number: int) -> None:
        if not table.commit(query_id(batch), number, _file_writer(batch, sink)):
            # Its rows are there; but Spark wants the batch's state, which comes with its rows.
            batch.write.format("noop").mode("overwrite").save()

    return frame.writeStream.foreachBatch(one_sentence(add))


def _file_writer(frame: DataFrame, sink: ParquetSink) -> Write:
    def write(folder: str) -> int:
        return written_rows(
            frame, lambda counted: _partitioned(counted, sink).parquet(for_spark(folder))
        )

    return write


def written_rows(frame: DataFrame, write: Callable[[DataFrame], None]) -> int:
    """Write a frame. How many rows its tasks had, wherever they ran: each is counted in the attempt
    that counts."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    observation = Observation()
    write(frame.observe(observation, count(lit(1)).alias("rows")))
    return int(observation.get["rows"])


def _partitioned(frame: DataFrame, sink: ParquetSink) -> DataFrameWriter:
    writer = frame.write.options(**sink.options)
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer
