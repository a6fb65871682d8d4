"""Messages of an archive or a topic, written to a topic again: all, some, slower, at other times.

Key, value and headers stay; the partition if asked for, the timestamp unless shifted. Written in
chunks, in the order of time, each exactly once (a write of the broker's under the replay's name and
the chunk's number). The invariant: chunks begin no sooner than the rate allows, and a restart with
the same checkpoint writes what is missing and nothing else.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.frames import part
from penstock.spark.pipeline.replay_plan import (
    Place,
    Plan,
    load_plan,
    next_chunk,
    save_next_chunk,
    save_plan,
)
from penstock.spark.pipeline.run import SparkPlace, running_spark
from penstock.spark.pipeline.table import parquet_files

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# Rows of a chunk where there is no rate: what one task sorts in memory, and a broker stages.
_CHUNK_ROWS: Final = 500_000
# How much of a rate is one chunk: Spark takes a good part of a second for one, however small.
_CHUNK_SECONDS: Final = 2.0
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_SETTINGS: Final = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}

Told = Callable[[int, int], None]
"""What is told of progress: rows written, rows in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What is replayed, and how."""

    source: str
    """A folder of an archive, or a topic."""
    is_folder: bool
    bootstrap: str
    topic: str
    from_ms: int | None = None
    to_ms: int | None = None
    offsets: Mapping[int, tuple[int, int | None]] | None = None
    """Of these partitions only, from an offset up to (not with) another."""
    where: str | None = None
    rows_per_s: float | None = None
    shift: int | Literal["now"] | None = None
    """Milliseconds to add to timestamps; now: so that the first one is now."""
    keep_partition: bool = False
    checkpoint: str | None = None
    request: Mapping[str, str | None]
    """All of this as it was written: a restart must ask for the same."""


@dataclass(slots=True)
class Pace:
    """When the next chunk may be written. Time that was lost is not made up for by a burst."""

    rows_per_s: float | None
    due_s: float = 0.0

    def wait_s(self, now_s: float) -> float:
        return max(0.0, self.due_s - now_s)

    def begin(self, rows: int, now_s: float) -> None:
        """So many rows are written from now on."""
        if self.rows_per_s is not None:
            self.due_s = max(self.due_s, now_s) + rows / self.rows_per_s


def replay(
    options: ReplayOptions, place: SparkPlace, told: Told, is_stopping: Callable[[], bool]
) -> tuple[bool, int]:
    """Whether it came to its end, and how many rows have been written, by earlier runs too."""
    with ExitStack() as stack:
        folder = options.checkpoint
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-replay-"))
        plan = load_plan(folder, options.request)
        started = stack.enter_context(running_spark(place, "penstock replay", _SETTINGS))
        if plan is None:
            plan = _plan(started.spark, options)
            save_plan(folder, plan)
        return _write(started.spark, options, plan, folder, told, is_stopping)


def _write(
    spark: SparkSession,
    options: ReplayOptions,
    plan: Plan,
    folder: str,
    told: Told,
    is_stopping: Callable[[], bool],
) -> tuple[bool, int]:
    pace = Pace(options.rows_per_s)
    first = next_chunk(folder)
    done = min(first * plan.chunk_rows, plan.rows)
    told(done, plan.rows)
    for chunk in range(first, len(plan.begins)):
        while (wait_s := pace.wait_s(time.monotonic())) > 0 and not is_stopping():
            time.sleep(min(wait_s, 0.2))
        if is_stopping():
            return False, done
        pace.begin(plan.rows_of(chunk), time.monotonic())
        with part("replay"):
            _write_chunk(_chunk(_selected(spark, options, plan), plan, chunk), options, plan, chunk)
        save_next_chunk(folder, chunk + 1)
        done += plan.rows_of(chunk)
        told(done, plan.rows)
    return True, done


def _write_chunk(frame: DataFrame, options: ReplayOptions, plan: Plan, chunk: int) -> None:
    from pyspark.sql.functions import col, timestamp_micros, unix_micros

    timestamp = timestamp_micros(unix_micros("timestamp") + plan.shift_ms * 1000)
    columns = [col("key"), col("value"), col("headers"), timestamp.alias("timestamp")]
    if options.keep_partition:
        columns.append(col("partition"))
    # One task, sorted: rows reach the topic in the order they had.
    rows = frame.repartition(1).sortWithinPartitions("timestamp", "topic", "partition", "offset")
    writer = rows.select(*columns).write.format("penstock").mode("append")
    writer = writer.option("bootstrap", options.bootstrap).option("topic", options.topic)
    writer.option("txnAppId", plan.name).option("txnVersion", str(chunk)).save()


def _plan(spark: SparkSession, options: ReplayOptions) -> Plan:
    """Look at the rows' places once, and cut."""
    with part("replay"):
        rate = options.rows_per_s
        chunk_rows = _CHUNK_ROWS if rate is None else max(1, int(rate * _CHUNK_SECONDS))
        selected = _selected(spark, options, None)
        rows = selected.count()
        begins = _begins(selected, chunk_rows)
    shift_ms = 0
    if options.shift == "now":
        shift_ms = int(time.time() * 1000) - begins[0].time_us // 1000 if begins else 0
    elif options.shift is not None:
        shift_ms = options.shift
    assert len(begins) == -(-rows // chunk_rows), (len(begins), rows, chunk_rows)
    return Plan(
        name=f"penstock-replay-{uuid4().hex}",
        request=options.request,
        from_ms=options.from_ms,
        to_ms=options.to_ms,
        shift_ms=shift_ms,
        rows=rows,
        chunk_rows=chunk_rows,
        begins=tuple(begins),
    )


def _begins(selected: DataFrame, chunk_rows: int) -> list[Place]:
    """The first row of every chunk. Only places are sorted, not what the messages hold."""
    places = selected.selectExpr(
        "unix_micros(timestamp) AS time", "topic", "partition", "offset"
    ).selectExpr("*", "row_number() OVER (ORDER BY time, topic, partition, offset) - 1 AS number")
    rows = places.where(f"number % {chunk_rows} = 0").orderBy("number").collect()
    return [Place(int(row[0]), str(row[1]), int(row[2]), int(row[3])) for row in rows]


def _selected(spark: SparkSession, options: ReplayOptions, plan: Plan | None) -> DataFrame:
    """The rows that are asked for. What a plan says of time holds: `10m-ago` moves on."""
    from pyspark.sql.functions import col, expr, lit, timestamp_millis

    from_ms, to_ms = (
        (options.from_ms, options.to_ms) if plan is None else (plan.from_ms, plan.to_ms)
    )
    frame = _read(spark, options)
    if from_ms is not None:
        frame = frame.where(col("timestamp") >= timestamp_millis(lit(from_ms)))
    if to_ms is not None:
        frame = frame.where(col("timestamp") < timestamp_millis(lit(to_ms)))
    if options.offsets is not None:
        ranges = [_range(*each) for each in options.offsets.items()]
        chosen = ranges[0]
        for each in ranges[1:]:
            chosen = chosen | each
        frame = frame.where(chosen)
    return frame if options.where is None else frame.where(expr(options.where))


def _read(spark: SparkSession, options: ReplayOptions) -> DataFrame:
    if not options.is_folder:
        reader = spark.read.format("penstock").option("bootstrap", options.bootstrap)
        return reader.option("subscribe", options.source).option("includeHeaders", "true").load()
    if next(parquet_files(options.source), None) is None:
        raise InvalidConfig(f"{options.source} has no Parquet files: is it an archive?")
    frame = spark.read.parquet(options.source)
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InvalidConfig(
            f"{options.source} is no archive: its files have no {', '.join(missing)}."
        )
    return frame


def _range(partition: int, offsets: tuple[int, int | None]) -> Column:
    from pyspark.sql.functions import col

    start, end = offsets
    chosen = (col("partition") == partition) & (col("offset") >= start)
    return chosen if end is None else chosen & (col("offset") < end)


def _chunk(frame: DataFrame, plan: Plan, chunk: int) -> DataFrame:
    """The rows from this chunk's first up to the next one's."""
    frame = frame.where(_is_from(plan.begins[chunk]))
    if chunk + 1 < len(plan.begins):
        frame = frame.where(
            ~_is_from(plan.begins[chunk + 1]) & _is_not_after(plan.begins[chunk + 1])
        )
    return frame


def _is_from(place: Place) -> Column:
    """Whether a row is at this place or behind it. The comparison of times alone says nothing new,
    but files and topics can be narrowed by it."""
    from pyspark.sql.functions import col, lit, struct, timestamp_micros

    moment = timestamp_micros(lit(place.time_us))
    here = struct(
        moment.alias("timestamp"),
        lit(place.topic).alias("topic"),
        lit(place.partition).alias("partition"),
        lit(place.offset).cast("long").alias("offset"),
    )
    return (col("timestamp") >= moment) & (
        struct("timestamp", "topic", "partition", "offset") >= here
    )


def _is_not_after(place: Place) -> Column:
    from pyspark.sql.functions import col, lit, timestamp_micros

    return col("timestamp") <= timestamp_micros(lit(place.time_us))
