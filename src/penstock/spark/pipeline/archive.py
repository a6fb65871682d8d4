"""Topics to Parquet, by topic and date, each message exactly once, small files merged.

`FOLDER/topic=orders/date=2026-11-16/*.parquet`, with the columns of the data source; a message's
date is that of its timestamp, in UTC. Each topic is a query of its own, so topics may be added and
left out from run to run. The checkpoints lie in the folder: whoever removes one removes the other.
The invariant: a topic whose messages are there goes on where its checkpoint says, or not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.model.errors import InvalidConfig
from penstock.model.ids import check_topic_name
from penstock.spark.pipeline.declared.locations import for_spark, is_url, local_path
from penstock.spark.pipeline.declared.spec import Trigger
from penstock.spark.pipeline.running.lag import latest_at
from penstock.spark.pipeline.running.run import Observer, SparkPlace, running_spark
from penstock.spark.pipeline.running.sinks import (
    Handle,
    one_sentence,
    query_id,
    triggered,
    written_rows,
)
from penstock.spark.pipeline.running.watch import await_sources, watch
from penstock.spark.pipeline.tables.compaction import Compactor
from penstock.spark.pipeline.tables.table import OWN_FOLDER, ParquetTable, parquet_files

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
    topics = list(dict.fromkeys(options.topics))
    for topic in topics:
        check_topic_name(topic)
    if is_url(options.folder):
        raise InvalidConfig(
            f"{options.folder} is no folder of this machine, and an archive rests on what its file "
            "system can do: archive to a folder, or use a pipeline with a Parquet sink."
        )
    with ParquetTable(local_path(options.folder)) as table:
        checkpoints = os.path.join(table.folder, OWN_FOLDER, "checkpoints")
        _check_existing(table, topics, checkpoints)
        compactor = Compactor(table, options.target_bytes)
        with running_spark(place, "penstock archive", {}) as started:
            observer.started(len(topics), is_sent=started.is_sent)
            queries = {
                topic: _start(
                    started.spark,
                    options,
                    topic,
                    _adding(topic, table, compactor),
                    os.path.join(checkpoints, topic),
                )
                for topic in topics
            }
            latest = latest_at([options.bootstrap])
            is_done = watch(queries, latest, observer.report, observer.is_stopping)
        for topic in topics:
            compactor.compact(_folder_of(topic), _today(), is_ending=True)
        return is_done


def _check_existing(table: ParquetTable, topics: Sequence[str], checkpoints: str) -> None:
    """Of a topic without a checkpoint all messages would be added, also those that are there."""
    if not os.path.isdir(checkpoints) and not table.is_empty():
        raise InvalidConfig(
            f"{table.folder} has Parquet files that are of no archive: take another folder."
        )
    for topic in topics:
        folder = os.path.join(table.folder, _folder_of(topic))
        is_new = not os.path.exists(os.path.join(checkpoints, topic, "metadata"))
        if is_new and next(parquet_files(folder), None) is not None:
            raise InvalidConfig(
                f"{folder} has files, and the checkpoint that they came with is gone from "
                f"{checkpoints}: put it back, or archive {topic} to another folder."
            )


def _adding(topic: str, table: ParquetTable, compactor: Compactor) -> Handle:
    from pyspark.sql.functions import date_format

    def add(batch: DataFrame, number: int) -> None:
        dated = batch.withColumn("date", date_format("timestamp", "yyyy-MM-dd"))
        table.commit(query_id(batch), number, lambda folder: written_rows(dated, _writer(folder)))
        compactor.compact(_folder_of(topic), _today(), is_ending=False)

    return one_sentence(add)


def _start(
    spark: SparkSession, options: ArchiveOptions, topic: str, add: Handle, checkpoint: str
) -> StreamingQuery:
    source = spark.readStream.format("penstock").option("bootstrap", options.bootstrap)
    source = source.option("subscribe", topic).option("startingOffsets", "earliest")
    source = source.option("includeHeaders", "true")
    source = source.option("failOnDataLoss", str(not options.is_loss_allowed).lower())
    writer = source.load().writeStream.foreachBatch(add)
    writer = writer.option("checkpointLocation", for_spark(checkpoint))
    return await_sources(triggered(writer, options.trigger).start())


def _writer(folder: str) -> Callable[[DataFrame], None]:
    def write(rows: DataFrame) -> None:
        writer = rows.write.partitionBy("topic", "date").option("compression", "zstd")
        writer.parquet(for_spark(folder))

    return write


def _folder_of(topic: str) -> str:
    return f"topic={topic}"


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
