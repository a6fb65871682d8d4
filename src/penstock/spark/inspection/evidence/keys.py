"""What keys and contents show: copies of a message, order within a key, and how keys are shared.

The messages are sent over the network once, to where their key is; then in three steps: equal
messages become one (`_contents`), each is judged beside the others of its key (`_judged`), and
keys are counted (`count_keys`). The invariant: a copy is only a copy; it is not out of order too.

What is called a copy, and why not more, is in docs/inspection.md: the same key, value, headers and
create time to the millisecond, in another batch, while that content is seen at no other time.

Aggregates here are of numbers only: with texts or structs Spark would sort all rows to group them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from penstock.spark.inspection.evidence.messages import NO_PRODUCER
from penstock.spark.inspection.finding import EXAMPLES_MAX

_PLACE: Final = ("topic", "partition", "key_hash")
_KEY: Final = ("topic", "key_hash", "key_start")
# Faults of one key are kept in so many rows, so that more than one can be shown.
_SLOTS: Final = 16


def count_keys(messages: DataFrame, *, tolerance_ms: int, near_offsets: int) -> DataFrame:
    """A row for each key of a topic, and further ones where it has faults; messages without a key
    count as one key, with a null hash."""
    copies = F.col("messages") - 1
    is_near = F.col("last_offset") - F.col("first_offset") <= near_offsets
    is_copied, is_back = F.col("is_copied"), F.col("back_ms") > 0
    same = F.col("is_same_producer")
    key_hash = F.when(F.col("has_key"), F.col("key_hash")).alias("key_hash")
    slot = F.when(is_copied | is_back, F.pmod("first_offset", F.lit(_SLOTS))).alias("slot")
    judged = _judged(_contents(messages), tolerance_ms)
    return judged.groupBy("topic", key_hash, "key_start", slot).agg(
        F.sum("messages").alias("messages"),
        F.sum("message_bytes").alias("message_bytes"),
        F.min("partition").alias("first_partition"),
        F.max("partition").alias("last_partition"),
        F.min("first_offset").alias("first_offset"),
        F.min_by("partition", "first_offset").alias("first_offset_partition"),
        F.sum(F.when(is_copied & is_near, copies).otherwise(0)).alias("near_copies"),
        F.sum(F.when(is_copied & ~is_near, copies).otherwise(0)).alias("far_copies"),
        F.count_if(is_back & same).alias("back"),
        F.count_if(is_back & ~same).alias("interleaved"),
        *_example("copied", is_copied, F.col("last_offset"), F.col("first_offset")),
        *_example("back", is_back & same, F.col("first_offset"), F.col("newest_offset")),
        *_example("interleaved", is_back & ~same, F.col("first_offset"), F.col("newest_offset")),
    )


def _contents(messages: DataFrame) -> DataFrame:
    """Messages of equal key, value, headers and create time in a partition, as one row."""
    # By the key alone, so that all that follows finds its rows where they are.
    placed = messages.repartition(*_PLACE)
    return placed.groupBy(*_PLACE, "has_key", "key_start", "content_hash", "created_ms").agg(
        F.count("*").alias("messages"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.min("batch_offset").alias("first_batch"),
        F.max("batch_offset").alias("last_batch"),
        F.min("producer_id").alias("producer_id"),
        F.max("producer_id").alias("last_producer_id"),
        F.min("producer_epoch").alias("producer_epoch"),
        F.max("producer_epoch").alias("last_producer_epoch"),
        F.max("value_bytes").alias("value_bytes"),
        F.sum("message_bytes").alias("message_bytes"),
    )


def _judged(contents: DataFrame, tolerance_ms: int) -> DataFrame:
    """Each content with whether it was copied, and how far it goes back within its key."""
    # One producer with an id numbered both: it meant to send both.
    is_meant = (
        (F.col("producer_id") != NO_PRODUCER)
        & (F.col("producer_id") == F.col("last_producer_id"))
        & (F.col("producer_epoch") == F.col("last_producer_epoch"))
    )
    is_copied = (
        (F.col("messages") > 1)
        & (F.col("first_batch") != F.col("last_batch"))
        & (F.col("value_bytes") > 0)
        & F.col("created_ms").isNotNull()
        & ~is_meant
    )
    in_log = Window.partitionBy(*_PLACE).orderBy("first_offset")
    before = in_log.rowsBetween(Window.unboundedPreceding, -1)
    contents = contents.select(
        "*",
        F.count("*").over(Window.partitionBy(*_PLACE, "content_hash")).alias("times"),
        F.max("created_ms").over(before).alias("newest_ms"),
        F.max_by("producer_id", "created_ms").over(before).alias("newest_producer_id"),
        F.max_by("first_offset", "created_ms").over(before).alias("newest_offset"),
    )
    back_ms = F.col("newest_ms") - F.col("created_ms")
    return contents.select(
        "*",
        (is_copied & (F.col("times") == 1)).alias("is_copied"),
        F.when(F.col("has_key") & (back_ms > tolerance_ms), back_ms).otherwise(0).alias("back_ms"),
        F.equal_null(F.col("newest_producer_id"), F.col("producer_id")).alias("is_same_producer"),
    )


def _example(name: str, is_seen: Column, offset: Column, other: Column) -> tuple[Column, ...]:
    """Where the fault is first seen: partition, offset, the offset it refers to, and by how much
    time it goes back."""
    order = F.when(is_seen, offset)
    return (
        F.min(order).alias(f"{name}_offset"),
        F.min_by("partition", order).alias(f"{name}_partition"),
        F.min_by(other, order).alias(f"{name}_other"),
        F.min_by("back_ms", order).alias(f"{name}_ms"),
    )


def key_faults(keys: DataFrame) -> DataFrame:
    """One row for each topic: how many faults of each kind, and examples."""

    def examples(name: str) -> Column:
        place = F.struct(
            F.col(f"{name}_partition").alias("partition"),
            F.col(f"{name}_offset").alias("offset"),
            F.col(f"{name}_other").alias("other"),
            F.col(f"{name}_ms").alias("back_ms"),
        )
        order = F.when(F.col(f"{name}_offset").isNotNull(), place)
        return F.min_by(place, order, EXAMPLES_MAX).alias(f"{name}_examples")

    return keys.groupBy("topic").agg(
        F.sum("far_copies").alias("far_copies"),
        F.sum(F.col("near_copies") + F.col("far_copies")).alias("copied"),
        F.sum("back").alias("back"),
        F.sum("interleaved").alias("interleaved"),
        examples("copied"),
        examples("back"),
        examples("interleaved"),
    )


def whole_keys(keys: DataFrame) -> DataFrame:
    """One row for each key that is one."""
    return (
        keys.where(F.col("key_hash").isNotNull())
        .groupBy(*_KEY)
        .agg(
            F.sum("messages").alias("messages"),
            F.sum("message_bytes").alias("message_bytes"),
            F.min("first_offset").alias("first_offset"),
            F.min_by("first_offset_partition", "first_offset").alias("partition"),
            (F.min("first_partition") != F.max("last_partition")).alias("is_scattered"),
        )
    )


def top_keys(whole: DataFrame, keys_max: int) -> DataFrame:
    """The keys of each topic with the most messages."""
    by_messages = Window.partitionBy("topic").orderBy(F.desc("messages"), "key_hash")
    ranked = whole.withColumn("rank", F.row_number().over(by_messages))
    return ranked.where(F.col("rank") <= keys_max)


def keys_by_count(whole: DataFrame) -> DataFrame:
    """How many keys have how many messages: few rows, since n messages make at most sqrt(2n)
    different counts. Enough for the exact Gini coefficient."""
    return whole.groupBy("topic", "messages").agg(
        F.count("*").alias("keys"), F.count_if("is_scattered").alias("scattered")
    )
