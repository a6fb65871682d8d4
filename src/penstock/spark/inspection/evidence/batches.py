"""What the batches of a log show: holes, repeated and swapped sequences, and how late they came.

A batch is one append, so the order of appends is a question about batches, of which there are far
fewer than messages. One pass over the messages makes them (`gather`); windows over the batches of
a partition and of a producer judge each (`judge`). The invariant: a batch that repeats another is
only that; it is not also out of order, and does not make others so.

Sequences count modulo 2**31 in a batch. They are unwrapped here: a batch that lies more than half
the circle away from the one before it has gone around.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from penstock.spark.inspection.evidence.messages import NO_PRODUCER
from penstock.spark.inspection.finding import EXAMPLES_MAX

_CIRCLE: Final = 2**31
_PARTITION: Final = ("topic", "partition")
_PRODUCER: Final = (*_PARTITION, "producer_id", "producer_epoch")
_BATCH_HEADER_BYTES: Final = 61
# length, attributes, two deltas, lengths of key and value, number of headers: a byte or two each.
_RECORD_FRAME_BYTES: Final = 9
NEAR_SHARES: Final = (0.01, 0.99)


def gather(messages: DataFrame) -> DataFrame:
    """The batches of the slim messages."""
    same = ("batch_records", "batch_bytes", "codec", "producer_id", "producer_epoch")
    # What is the same in all rows of a batch is grouped by: a maximum of texts would cost a sort.
    return messages.groupBy(*_PARTITION, "batch_offset", *same).agg(
        F.count("*").alias("messages"),
        F.count_if(~F.col("has_key")).alias("unkeyed"),
        F.count_if("is_ahead").alias("ahead"),
        F.min("offset").alias("first_offset"),
        F.max("offset").alias("last_offset"),
        F.sum("message_bytes").alias("message_bytes"),
        F.min_by("sequence", "offset").alias("sequence"),
        F.min("created_ms").alias("created_first_ms"),
        F.max("created_ms").alias("created_last_ms"),
        F.max("appended_ms").alias("appended_ms"),
    )


def judge(batches: DataFrame, *, tolerance_ms: int) -> DataFrame:
    """Each batch with what is wrong with it."""
    return _with_sequences(_with_places(batches), tolerance_ms)


def _with_places(batches: DataFrame) -> DataFrame:
    """Offsets missing before and inside each batch, and when it was appended: as the broker
    stamped it, or at the latest create time that the log had reached by then."""
    in_log = Window.partitionBy(*_PARTITION).orderBy("batch_offset")
    so_far = in_log.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    span = F.col("last_offset") - F.col("first_offset") + 1
    return batches.select(
        "*",
        F.coalesce(F.col("first_offset") - F.lag("last_offset").over(in_log) - 1, F.lit(0)).alias(
            "missing_before"
        ),
        (span - F.col("messages")).alias("missing_inside"),
        F.coalesce(F.col("appended_ms"), F.max("created_last_ms").over(so_far)).alias("reached_ms"),
    )


def _with_sequences(batches: DataFrame, tolerance_ms: int) -> DataFrame:
    """What the producer's own numbers say: repeated, missing, and swapped sequences, and create
    times that go back."""
    by_producer = Window.partitionBy(*_PRODUCER)
    in_log = by_producer.orderBy("batch_offset")
    is_counted = F.col("producer_id") != NO_PRODUCER
    step = F.col("sequence") - F.lag("sequence").over(in_log)
    turn = F.when(step < -_CIRCLE // 2, F.lit(1)).when(step > _CIRCLE // 2, F.lit(-1)).otherwise(0)
    batches = batches.withColumn("turn", turn)
    first = F.col("sequence") + F.sum("turn").over(in_log) * F.lit(_CIRCLE)
    batches = batches.withColumn("sequence_first", first).withColumn(
        "sequence_last", first + F.col("last_offset") - F.col("first_offset")
    )
    # In the order of their sequences, batches of one producer lie side by side: where they
    # overlap one repeats the other, where they do not meet something is missing.
    in_sequence = by_producer.orderBy("sequence_first", "batch_offset")
    before = in_sequence.rowsBetween(Window.unboundedPreceding, -1)
    reached = F.max("sequence_last").over(before)
    overlap = F.least(reached, F.col("sequence_last")) - F.col("sequence_first") + 1
    gap = F.col("sequence_first") - reached - 1
    batches = batches.select(
        "*",
        F.when(is_counted & reached.isNotNull() & (overlap > 0), overlap)
        .otherwise(0)
        .alias("repeated"),
        F.lag("first_offset").over(in_sequence).alias("repeated_offset"),
        F.when(is_counted & (gap > 0), gap).otherwise(0).alias("skipped"),
    )
    return _with_order(batches, is_counted, tolerance_ms)


def _with_order(batches: DataFrame, is_counted: Column, tolerance_ms: int) -> DataFrame:
    """Whether a batch came after one that its producer made later."""
    before = (
        Window.partitionBy(*_PRODUCER)
        .orderBy("batch_offset")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    is_first_copy = F.col("repeated") == 0
    highest = F.max(F.when(is_first_copy, F.col("sequence_last"))).over(before)
    latest = F.max(F.when(is_first_copy, F.col("created_last_ms"))).over(before)
    back_ms = latest - F.col("created_first_ms")
    is_judged = is_counted & is_first_copy
    return batches.select(
        "*",
        F.coalesce(is_judged & (F.col("sequence_first") <= highest), F.lit(False)).alias(
            "is_swapped"
        ),
        F.when(is_judged & (back_ms > tolerance_ms), back_ms).otherwise(0).alias("back_ms"),
    )


def partition_totals(judged: DataFrame) -> DataFrame:
    """One row for each partition: its numbers, how many of each fault, and examples of them."""
    kept_share = F.col("messages") / F.col("batch_records")
    time_ms = F.col("reached_ms")
    missing = F.col("missing_before")
    is_back = (F.col("back_ms") > 0) & ~F.col("is_swapped")
    return judged.groupBy(*_PARTITION).agg(
        F.sum("messages").alias("messages"),
        F.count("*").alias("batches"),
        F.count_if(F.col("unkeyed") > 0).alias("unkeyed_batches"),
        F.sum("unkeyed").alias("unkeyed"),
        F.sum(F.round(F.col("batch_bytes") * kept_share).cast("long")).alias("stored_bytes"),
        F.sum("message_bytes").alias("message_bytes"),
        F.min("first_offset").alias("first_offset"),
        F.max("last_offset").alias("last_offset"),
        F.min("created_first_ms").alias("created_first_ms"),
        F.max("created_last_ms").alias("created_last_ms"),
        F.min(time_ms).alias("time_first_ms"),
        F.max(time_ms).alias("time_last_ms"),
        F.percentile_approx(time_ms, list(NEAR_SHARES), 1000).alias("time_near_ms"),
        F.count_if(F.col("appended_ms").isNotNull()).alias("stamped_batches"),
        # A batch that itself says it has fewer records than offsets: only compaction makes those.
        F.count_if(
            (F.col("missing_inside") > 0) & (F.col("messages") == F.col("batch_records"))
        ).alias("thinned_batches"),
        *_sighting("missing", missing > 0, missing, F.col("first_offset") - missing),
        *_sighting("skipped", F.col("skipped") > 0, F.col("skipped"), F.col("first_offset")),
        *_sighting("repeated", F.col("repeated") > 0, F.col("repeated"), F.col("first_offset")),
        *_sighting("swapped", F.col("is_swapped"), F.col("messages"), F.col("first_offset")),
        *_sighting("ahead", F.col("ahead") > 0, F.col("ahead"), F.col("first_offset")),
        *_sighting("back", is_back, F.lit(1), F.col("first_offset")),
    )


def _sighting(name: str, is_seen: Column, amount: Column, offset: Column) -> tuple[Column, ...]:
    """How much of a fault there is, and the first places where it is seen."""
    place = F.struct(
        "partition",
        offset.alias("offset"),
        amount.alias("amount"),
        "producer_id",
        "repeated_offset",
        "back_ms",
    )
    return (
        F.coalesce(F.sum(F.when(is_seen, amount)), F.lit(0)).alias(name),
        F.min_by(place, F.when(is_seen, offset), EXAMPLES_MAX).alias(f"{name}_examples"),
    )


def gaps(judged: DataFrame, topics: Collection[str], gaps_max: int) -> DataFrame:
    """Where offsets are missing between the batches of these topics: of each partition the longest
    gaps."""
    longest = Window.partitionBy(*_PARTITION).orderBy(F.desc("missing_before"), "first_offset")
    found = judged.where((F.col("missing_before") > 0) & F.col("topic").isin(*topics))
    ranked = found.withColumn("rank", F.row_number().over(longest))
    return ranked.where(F.col("rank") <= gaps_max).select(
        *_PARTITION,
        (F.col("first_offset") - F.col("missing_before")).alias("offset"),
        F.col("missing_before").alias("amount"),
    )


def codec_totals(judged: DataFrame) -> DataFrame:
    """How well each codec does, over the batches that were read whole."""
    expanded = (
        F.col("message_bytes") + F.col("messages") * _RECORD_FRAME_BYTES + _BATCH_HEADER_BYTES
    )
    whole = judged.where(F.col("messages") == F.col("batch_records"))
    return whole.groupBy("topic", "codec").agg(
        F.count("*").alias("batches"),
        F.sum("messages").alias("messages"),
        F.sum("batch_bytes").alias("stored_bytes"),
        # What is not compressed is as large as it is.
        F.sum(F.when(F.col("codec") == "none", F.col("batch_bytes")).otherwise(expanded)).alias(
            "expanded_bytes"
        ),
    )


def throughput(judged: DataFrame, charts: dict[str, tuple[int, int, int]]) -> DataFrame:
    """Messages and bytes by bucket of time. `charts`: first, last and bucket width of a topic."""
    low = _by_topic({topic: chart[0] for topic, chart in charts.items()})
    high = _by_topic({topic: chart[1] for topic, chart in charts.items()})
    width = _by_topic({topic: chart[2] for topic, chart in charts.items()})
    time_ms = F.col("reached_ms")
    shown = judged.where((time_ms >= low) & (time_ms <= high))
    kept = F.col("batch_bytes") * F.col("messages") / F.col("batch_records")
    return shown.groupBy("topic", (time_ms - time_ms % width).alias("start_ms")).agg(
        F.sum("messages").alias("messages"), F.sum(F.round(kept).cast("long")).alias("stored_bytes")
    )


def _by_topic(numbers: dict[str, int]) -> Column:
    column = F.lit(None).cast("long")
    for topic, number in numbers.items():
        column = F.when(F.col("topic") == topic, F.lit(number)).otherwise(column)
    return column
