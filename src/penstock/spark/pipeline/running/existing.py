"""What a Parquet sink's folder or URL has already: may a run add to it?

The invariant: a stream with a new checkpoint, which begins anew, adds to files that are there only
if it was told to; and never to those that Spark's own file sink wrote by another checkpoint, as it
would take new batches for old ones of the same number and leave their rows out.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.locations import beneath, for_spark, is_url
from penstock.spark.pipeline.declared.spec import ParquetSink, Pipeline
from penstock.spark.pipeline.running.checkpoint import HadoopFiles
from penstock.spark.pipeline.tables.table import ParquetTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark's: in every checkpoint from the start of its query on, and its file sink's own log.
_METADATA: Final = "metadata"
_SINK_LOG: Final = "_spark_metadata"


def checkpoint_of(pipeline: Pipeline, sink: str) -> str:
    """Where a sink's query has its checkpoint."""
    assert pipeline.checkpoint is not None
    return beneath(pipeline.checkpoint, sink)


def check_here(pipeline: Pipeline, sink: ParquetSink, table: ParquetTable) -> None:
    """As far as it can be seen without Spark; InvalidConfig says what to do."""
    if pipeline.is_batch and sink.if_exists == "error" and not table.is_empty():
        raise InvalidConfig(
            f"sinks.{sink.name}: {sink.path} has files already: set if_exists to append or "
            "overwrite, or take another folder."
        )
    if pipeline.is_batch:
        return
    checkpoint = checkpoint_of(pipeline, sink.name)
    if not is_url(checkpoint) and not os.path.exists(os.path.join(checkpoint, _METADATA)):
        _check_new(sink, is_empty=table.is_empty())


def check_there(
    pipeline: Pipeline, sink: ParquetSink, table: ParquetTable | None, spark: SparkSession
) -> None:
    """The rest, of a stream: where the checkpoint or the sink is at a URL."""
    checkpoint = checkpoint_of(pipeline, sink.name)
    if table is not None and not is_url(checkpoint):
        return
    if HadoopFiles(for_spark(checkpoint), spark).read(_METADATA) is not None:
        return
    if table is not None:
        _check_new(sink, is_empty=table.is_empty())
        return
    there = HadoopFiles(sink.path, spark)
    if there.names(_SINK_LOG):
        raise InvalidConfig(
            f"sinks.{sink.name}: {sink.path} was written by a stream with another checkpoint, and "
            "Spark would leave rows out: use that checkpoint, or take another place."
        )
    _check_new(sink, is_empty=not there.names("."))


def _check_new(sink: ParquetSink, *, is_empty: bool) -> None:
    """The checkpoint is new."""
    if sink.if_exists == "error" and not is_empty:
        raise InvalidConfig(
            f"sinks.{sink.name}: {sink.path} has files already and the checkpoint is new, so rows "
            "may be written again: set if_exists to append, or use the checkpoint they came with."
        )
