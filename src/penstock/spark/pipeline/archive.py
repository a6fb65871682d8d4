"""Topics to Parquet, by topic and date, each message exactly once, small files merged.

`FOLDER/topic=orders/date=2026-11-16/*.parquet`, with the columns of the data source; a message's
date is that of its timestamp, in UTC. Each topic is a query of its own, so topics may be added and
left out from run to run. The checkpoints lie in the folder: whoever removes one removes the other.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.model.errors import InvalidConfig
from penstock.model.ids import check_topic_name
from penstock.spark.pipeline.compaction import compact
from penstock.spark.pipeline.run import Observer, SparkPlace, running_spark
from penstock.spark.pipeline.sinks import one_sentence, query_id, triggered
from penstock.spark.pipeline.spec import Trigger
from penstock.spark.pipeline.table import OWN_FOLDER, ParquetTable
from penstock.spark.pipeline.watch import await_sources, watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions:
    """What is archived, and how."""

    topics: Sequence[str]
    folder: str
    bootstrap: str
    trigger: Trigger
    target_bytes: int
    """Files smaller than half of it are merged to about this size."""
    is_loss_allowed: bool = False
    """Go on after messages that were gone before they could be archived."""


def archive(options: ArchiveOptions, place: SparkPlace, observer: Observer) -> bool:
    """Whether it came to its end, and was not told to end before."""
    for topic in options.topics:
        check_topic_name(topic)
    with ParquetTable(options.folder) as table:
        checkpoints = os.path.join(table.folder, OWN_FOLDER, "checkpoints")
        if not table.is_empty() and not os.path.isdir(checkpoints):
            raise InvalidConfig(
                f"{table.folder} has Parquet files that are of no archive: take another folder."
            )
        with running_spark(place, "penstock archive", {}) as started:
            observer.started(len(options.topics), is_sent=started.is_sent)
            queries = {
                topic: _start(
                    started.spark, options, topic, table, os.path.join(checkpoints, topic)
                )
                for topic in dict.fromkeys(options.topics)
            }
            is_done = watch(queries, observer.report, observer.is_stopping)
        for topic in options.topics:
            _compact(table, topic, options.target_bytes)
        return is_done


def _start(
    spark: SparkSession, options: ArchiveOptions, topic: str, table: ParquetTable, checkpoint: str
) -> StreamingQuery:
    from pyspark.sql.functions import date_format

    def add(batch: DataFrame, number: int) -> None:
        dated = batch.withColumn("date", date_format("timestamp", "yyyy-MM-dd"))
        table.commit(query_id(batch), number, _writer(dated))
        _compact(table, topic, options.target_bytes)

    source = spark.readStream.format("penstock").option("bootstrap", options.bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    source = source.option("includeHeaders", "true")
    source = source.option("failOnDataLoss", str(not options.is_loss_allowed).lower())
    writer = source.load().writeStream.foreachBatch(one_sentence(add))
    writer = writer.option("checkpointLocation", checkpoint)
    return await_sources(triggered(writer, options.trigger).start())


def _writer(batch: DataFrame) -> Callable[[str], None]:
    def write(folder: str) -> None:
        batch.write.partitionBy("topic", "date").option("compression", "zstd").parquet(folder)

    return write


def _compact(table: ParquetTable, topic: str, target_bytes: int) -> None:
    today = datetime.now(UTC).date().isoformat()
    compact(table, f"topic={topic}", today, target_bytes)
