"""The questions put to Spark, in their order, and the small answers.

The log is read once; slim messages, batches, delays and keys are kept by Spark while the questions
about them are asked, and let go at the end. Every answer is an aggregate: its size depends on how
many partitions, producers shown and classes there are, not on how many messages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from penstock.spark.inspection.evidence import batches, dead_letters, delays, keys
from penstock.spark.inspection.evidence.answers import Answers, Record, histogram
from penstock.spark.inspection.evidence.distributions import bucket_width_ms, visible_range_ms
from penstock.spark.inspection.evidence.holes import GAPS_MAX
from penstock.spark.inspection.evidence.messages import NO_PRODUCER, slim
from penstock.spark.inspection.evidence.slow import Timed, slow_among
from penstock.spark.inspection.evidence.tables import CAUSES_MAX, KEYS_MAX, PRODUCERS_MAX
from penstock.spark.inspection.thresholds import Thresholds

STEPS: Final = (
    "reading the log",
    "measuring throughput",
    "measuring sizes",
    "measuring delays",
    "comparing producers",
    "comparing keys",
    "ranking keys",
    "counting dead letters",
)
Step = Callable[[str], None]


def ask_spark(
    messages: DataFrame,
    dead: DataFrame | None,
    *,
    doubtful: Collection[str],
    thresholds: Thresholds,
    now_ms: int,
    step: Step,
) -> Answers:
    """Every question, over rows of the source with `includeBatch` and `includeHeaders`. In the
    doubtful topics an offset without a message may be a loss: there all of them are asked for."""
    with ExitStack() as kept:

        def keep(table: DataFrame) -> DataFrame:
            table.persist(StorageLevel.MEMORY_AND_DISK)
            kept.callback(table.unpersist)
            return table

        step(STEPS[0])
        slimmed = keep(slim(messages, latest_ms=now_ms + thresholds.clock_ahead_ms))
        judged = keep(
            batches.judge(batches.gather(slimmed), tolerance_ms=thresholds.order_tolerance_ms)
        )
        partitions = _rows(batches.partition_totals(judged))
        torn = {row["topic"] for row in partitions if row["missing"]} & set(doubtful)
        gaps = _rows(batches.gaps(judged, torn, GAPS_MAX)) if torn else []
        step(STEPS[1])
        charts = _charts(partitions)
        throughput = _rows(batches.throughput(judged, charts)) if charts else []
        codecs = _rows(batches.codec_totals(judged))
        step(STEPS[2])
        sizes = _rows(delays.count_sizes(slimmed))
        step(STEPS[3])
        by_producer = keep(delays.count_delays(slimmed, judged))
        by_topic = by_producer.groupBy("topic", "low").agg(F.sum("messages").alias("messages"))
        topic_delays = _rows(by_topic)
        step(STEPS[4])
        producers = _rows(delays.producers(by_producer, judged, PRODUCERS_MAX))
        slow = _slow(by_producer, producers, topic_delays, thresholds)
        slow_ids = [(topic, each.producer_id) for topic, found in slow.items() for each, _ in found]
        slow_batches = _rows(delays.slowest_batches(judged, slow_ids)) if slow_ids else []
        step(STEPS[5])
        counted = keep(
            keys.count_keys(
                slimmed,
                tolerance_ms=thresholds.order_tolerance_ms,
                near_offsets=thresholds.repeat_distance_offsets,
            )
        )
        faults = _rows(keys.key_faults(counted))
        step(STEPS[6])
        whole = keys.whole_keys(counted)
        return Answers(
            partitions=partitions,
            gaps=gaps,
            codecs=codecs,
            throughput=throughput,
            bucket_widths_ms={topic: chart[2] for topic, chart in charts.items()},
            sizes=sizes,
            delays=topic_delays,
            producers=producers,
            slow=slow,
            slow_batches=slow_batches,
            faults=faults,
            top_keys=_rows(keys.top_keys(whole, KEYS_MAX)),
            keys_by_count=_rows(keys.keys_by_count(whole)),
            dead_letters=_dead_letters(dead, step),
        )


def _rows(table: DataFrame) -> list[Record]:
    return [row.asDict(recursive=True) for row in table.collect()]


def _charts(partitions: Sequence[Record]) -> dict[str, tuple[int, int, int]]:
    """For each topic with times: where its time chart begins and ends, and its bucket width."""
    charts = {}
    for topic in {row["topic"] for row in partitions}:
        timed = [
            row for row in partitions if row["topic"] == topic and row["time_near_ms"] is not None
        ]
        if timed:
            low, high = visible_range_ms(
                min(row["time_first_ms"] for row in timed),
                max(row["time_last_ms"] for row in timed),
                min(row["time_near_ms"][0] for row in timed),
                max(row["time_near_ms"][1] for row in timed),
            )
            charts[topic] = (low, high, bucket_width_ms(high - low))
    return charts


def _slow(
    by_producer: DataFrame,
    producers: Sequence[Record],
    topic_delays: Sequence[Record],
    thresholds: Thresholds,
) -> dict[str, list[tuple[Timed, int]]]:
    """The slow producers of each topic, with the median delay of the others."""
    suspects = {
        (row["topic"], each["producer_id"])
        for row in producers
        for each in row["slowest"] or ()
        if each["producer_id"] != NO_PRODUCER
        and (each["delay_p50_ms"] or 0) >= thresholds.slow_delay_ms
    }
    if not suspects:
        return {}
    wanted = F.struct("topic", "producer_id").isin(
        [F.struct(F.lit(topic), F.lit(number).cast("long")) for topic, number in suspects]
    )
    classes: dict[tuple[str, int], dict[int, int]] = {}
    for row in _rows(by_producer.where(wanted)):
        of_producer = classes.setdefault((row["topic"], row["producer_id"]), {})
        of_producer[row["low"]] = row["messages"]
    slow = {}
    for topic in {topic for topic, _ in classes}:
        timed = [Timed(number, found) for (of, number), found in classes.items() if of == topic]
        slow[topic] = slow_among(timed, histogram(topic_delays, topic), thresholds)
    return slow


def _dead_letters(dead: DataFrame | None, step: Step) -> list[Record]:
    if dead is None:
        return []
    step(STEPS[7])
    return _rows(dead_letters.causes(dead, CAUSES_MAX))
