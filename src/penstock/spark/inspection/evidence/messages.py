"""From the rows of the source to the few numbers of each message that an inspection works on.

The one place that reads the log, once: what comes out (some 80 bytes a message; no values, and of
keys their first bytes) is kept by Spark in memory, and on its disks beyond, for the questions that
follow. Everything is SQL expressions: no Python runs per message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

# What is kept of a key, to show it.
KEY_START_BYTES: Final = 48
NO_PRODUCER: Final = -1


def read_messages(
    spark: SparkSession,
    place: Mapping[str, str],
    topics: Sequence[str],
    ranges: Mapping[str, Mapping[int, tuple[int, int]]] | None,
    since_ms: int | None,
) -> DataFrame:
    """The topics as a table with all that batches say. `ranges` are offsets by topic and
    partition, where a broker told them: so what is appended meanwhile is not half in."""
    reader = spark.read.format("penstock").options(**place)
    reader = reader.option("subscribe", ",".join(topics))
    reader = reader.option("includeHeaders", "true").option("includeBatch", "true")
    # Retention may go on under a long inspection: what it takes is no reason to stop.
    reader = reader.option("failOnDataLoss", "false")
    if ranges is not None:
        reader = reader.option("startingOffsets", _offsets(ranges, 0))
        reader = reader.option("endingOffsets", _offsets(ranges, 1))
    elif since_ms is not None:
        reader = reader.option("startingTimestamp", str(since_ms))
        reader = reader.option("startingOffsetsByTimestampStrategy", "latest")
    return reader.load()


def slim(messages: DataFrame, *, latest_ms: int) -> DataFrame:
    """Of each message what the questions need. A create time after `latest_ms` is a mistake: it
    is counted as one, and not used as a time."""
    key_bytes = F.coalesce(F.octet_length("key"), F.lit(0))
    value_bytes = F.coalesce(F.octet_length("value"), F.lit(0))
    header_bytes = F.coalesce(
        F.aggregate(
            "headers",
            F.lit(0),
            lambda total, header: (
                total
                + F.octet_length(header["key"])
                + F.coalesce(F.octet_length(header["value"]), F.lit(0))
            ),
        ),
        F.lit(0),
    )
    message_bytes = key_bytes + value_bytes + header_bytes
    # Lengths tell null from empty, and one field's end from the next one's start.
    content_hash = F.xxhash64(
        "key", F.octet_length("key"), "value", F.octet_length("value"), "headers"
    )
    created_ms = _milliseconds("createTime")
    return messages.select(
        "topic",
        "partition",
        "offset",
        F.when(created_ms <= latest_ms, created_ms).alias("created_ms"),
        F.coalesce(created_ms > latest_ms, F.lit(False)).alias("is_ahead"),
        _milliseconds("appendTime").alias("appended_ms"),
        F.col("key").isNotNull().alias("has_key"),
        # Messages without a key are told apart by their content, so that they spread over tasks.
        F.when(F.col("key").isNull(), content_hash).otherwise(F.xxhash64("key")).alias("key_hash"),
        F.substring("key", 1, KEY_START_BYTES).alias("key_start"),
        content_hash.alias("content_hash"),
        value_bytes.alias("value_bytes"),
        message_bytes.alias("message_bytes"),
        F.col("batchOffset").alias("batch_offset"),
        F.col("batchRecords").alias("batch_records"),
        F.col("batchBytes").alias("batch_bytes"),
        "codec",
        F.col("producerId").alias("producer_id"),
        F.col("producerEpoch").alias("producer_epoch"),
        "sequence",
    )


def _milliseconds(name: str) -> Column:
    """The time as a number; null where the producer gave none (-1)."""
    number = F.unix_millis(name)
    return F.when(number >= 0, number)


def _offsets(ranges: Mapping[str, Mapping[int, tuple[int, int]]], side: int) -> str:
    """Spark's way to write one offset for each partition."""
    return json.dumps(
        {
            topic: {str(partition): places[side] for partition, places in partitions.items()}
            for topic, partitions in ranges.items()
        }
    )
