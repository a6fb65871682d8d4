"""How long messages were under way, and how large they are: counted by class, for percentiles.

A delay is exact where the broker stamped the append: that time less the producer's. Elsewhere the
log itself gives a lower bound: when a batch was appended, every create time seen before it in its
partition had passed. The records of such a batch are taken as spread evenly between its first and
its last create time; so no message has to be joined with its batch again.

Classes are 1/32 of their values wide, or one: see `distributions`.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from penstock.spark.inspection.evidence.messages import NO_PRODUCER
from penstock.spark.inspection.finding import EXAMPLES_MAX

# Points at which the records of a batch are taken to be made.
_POINTS_MAX: Final = 8
_CLASS_BITS: Final = 5


def count_sizes(messages: DataFrame) -> DataFrame:
    """Messages by topic and class of their size."""
    return messages.groupBy("topic", class_of(F.col("message_bytes")).alias("low")).agg(
        F.count("*").alias("messages")
    )


def count_delays(messages: DataFrame, judged: DataFrame) -> DataFrame:
    """Messages by topic, producer and class of their delay."""
    exact = messages.where(F.col("appended_ms").isNotNull()).select(
        "topic",
        "producer_id",
        (F.col("appended_ms") - F.col("created_ms")).alias("delay_ms"),
        F.lit(1).cast("long").alias("weight"),
    )
    unstamped = judged.where(F.col("appended_ms").isNull() & F.col("reached_ms").isNotNull())
    first, last = F.col("created_first_ms"), F.col("created_last_ms")
    steps = F.when(first == last, F.lit(1)).otherwise(F.least("messages", F.lit(_POINTS_MAX)))
    points = unstamped.select(
        "*", steps.alias("steps"), F.explode(F.sequence(F.lit(0), (steps - 1).cast("int")))
    ).withColumnRenamed("col", "step")
    part = F.col("step") / F.greatest(F.col("steps") - 1, F.lit(1))
    # Whole numbers that add up to the messages of the batch.
    after = F.floor((F.col("step") + 1) * F.col("messages") / F.col("steps"))
    weight = after - F.floor(F.col("step") * F.col("messages") / F.col("steps"))
    bounded = points.select(
        "topic",
        "producer_id",
        (F.col("reached_ms") - first - F.floor((last - first) * part)).alias("delay_ms"),
        weight.alias("weight"),
    )
    delay_ms = F.greatest(F.col("delay_ms"), F.lit(0))
    return (
        exact.unionByName(bounded)
        .where(F.col("delay_ms").isNotNull())
        .groupBy("topic", "producer_id", class_of(delay_ms).alias("low"))
        .agg(F.sum("weight").alias("messages"))
    )


def class_of(number: Column) -> Column:
    """The lowest number of the class; classes are exact up to 63, then 32 to every doubling."""
    # At a power of two the logarithm may come out a hair low: then the class is a finer one, with
    # the same lowest number.
    bits = F.floor(F.log2(F.greatest(number, F.lit(1)))).cast("int") - _CLASS_BITS
    width = F.call_function("shiftleft", F.lit(1).cast("long"), F.greatest(bits, F.lit(0)))
    return (number - number % width).cast("long")


def producers(delays: DataFrame, judged: DataFrame, producers_max: int) -> DataFrame:
    """The producers of each topic with the most messages, and those with the longest delays."""
    timed = delays.groupBy("topic", "producer_id").agg(
        F.sum("messages").alias("timed"),
        F.percentile("low", [0.5, 0.99], F.col("messages")).alias("delay_ms"),
    )
    counted = judged.groupBy("topic", "producer_id").agg(
        F.sum("messages").alias("messages"),
        F.count("*").alias("batches"),
        F.sum("batch_bytes").alias("stored_bytes"),
        F.max("producer_epoch").alias("epoch"),
    )
    joined = counted.join(timed, ["topic", "producer_id"], "left")
    row = F.struct(
        F.col("delay_ms")[0].cast("long").alias("delay_p50_ms"),
        F.col("delay_ms")[1].cast("long").alias("delay_p99_ms"),
        "producer_id",
        "messages",
        "batches",
        "stored_bytes",
        "epoch",
    )
    return joined.groupBy("topic").agg(
        F.count_if(F.col("producer_id") != NO_PRODUCER).alias("producers"),
        F.max_by(row, F.struct("messages", "producer_id"), producers_max).alias("largest"),
        F.max_by(row, F.struct(F.col("delay_ms")[0], F.col("producer_id")), producers_max).alias(
            "slowest"
        ),
    )


def slowest_batches(judged: DataFrame, slow: list[tuple[str, int]]) -> DataFrame:
    """Of each of these producers of a topic, the batches that came latest."""
    late_ms = F.col("reached_ms") - F.col("created_first_ms")
    wanted = F.lit(False)
    for topic, producer_id in slow:
        wanted = wanted | ((F.col("topic") == topic) & (F.col("producer_id") == producer_id))
    place = F.struct("partition", F.col("first_offset").alias("offset"), late_ms.alias("late_ms"))
    return (
        judged.where(wanted)
        .groupBy("topic", "producer_id")
        .agg(F.max_by(place, late_ms, EXAMPLES_MAX).alias("examples"))
    )
