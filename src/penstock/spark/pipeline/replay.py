"""Messages of an archive or a topic, written to a topic again: all, some, slower, at other times.

Key, value and headers stay; the partition if asked for, the timestamp unless shifted. The rows are
found and put in order once, when the replay is planned; then a stretch of them at a time is read,
and written in chunks, each exactly once (a write of the broker's under the replay's name, numbered
by the rows that are written with it). The invariant: chunks begin no sooner than the rate allows,
and a restart with the same checkpoint writes what is missing and nothing else, at whatever rate.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal
from uuid import uuid4

from penstock.model.errors import InvalidConfig
from penstock.spark.cluster import shared_client
from penstock.spark.pipeline.replay_plan import (
    Place,
    Plan,
    Span,
    Stretch,
    held,
    load_plan,
    load_progress,
    save_plan,
    save_progress,
)
from penstock.spark.pipeline.running.frames import part
from penstock.spark.pipeline.running.run import SparkPlace, running_spark
from penstock.spark.pipeline.tables.table import parquet_files
from penstock.spark.sink.batch import write_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# What one task sorts in memory, and a broker stages.
_STRETCH_ROWS: Final = 500_000
# How much of a rate is one chunk: Spark takes a good part of a second for one, however small.
_CHUNK_SECONDS: Final = 2.0
_NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
_ORDER: Final = ("timestamp", "topic", "partition", "offset")
# Spark numbers the rows of each task from here on: the task's number is in the higher bits.
_TASK_ROWS: Final = 2**33
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
        stack.enter_context(held(folder))
        source_id = find_source_id(options)
        plan = load_plan(folder, options.request, source_id)
        started = stack.enter_context(running_spark(place, "penstock replay", _SETTINGS))
        with part("replay"):
            if plan is None:
                plan = plan_replay(started.spark, options, source_id)
                save_plan(folder, plan)
            return write_planned(started.spark, options, plan, folder, told, is_stopping)


def find_source_id(options: ReplayOptions) -> str | None:
    """The id of the topic that is read, which has the partitions asked for; None for a folder."""
    if options.is_folder:
        return None
    described = shared_client(options.bootstrap).admin.describe_topic(options.source)
    check_offsets(options, {each.partition for each in described.partitions})
    return described.topic_id


def check_offsets(options: ReplayOptions, partitions: Collection[int]) -> None:
    """Of a partition that is not there nothing would be written, and nobody would know."""
    missing = sorted((options.offsets or {}).keys() - partitions)
    if missing:
        raise InvalidConfig(
            f"--offsets: {options.source} has no partition {missing[0]}; the last one that it has "
            f"is {max(partitions, default='none')}."
        )


# --- planning ----------------------------------------------------------------------------------


def plan_replay(
    spark: SparkSession,
    options: ReplayOptions,
    source_id: str | None,
    stretch_rows: int = _STRETCH_ROWS,
) -> Plan:
    """Look at the rows' places, once, and cut."""
    from pyspark.sql.functions import col, lit, timestamp_millis

    frame = _read(spark, options)
    if options.is_folder and options.offsets is not None:
        found = frame.select("partition").distinct().collect()
        check_offsets(options, {int(row["partition"]) for row in found})
    frame = _selected(frame, options, options.to_ms)
    if options.from_ms is not None:
        frame = frame.where(col("timestamp") >= timestamp_millis(lit(options.from_ms)))
    stretches = _cut(frame, stretch_rows)
    shift_ms = 0
    if options.shift == "now":
        if stretches:
            shift_ms = int(time.time() * 1000) - stretches[0].begin.time_us // 1000
    elif options.shift is not None:
        shift_ms = options.shift
    return Plan(
        name=f"penstock-replay-{uuid4().hex}",
        request=options.request,
        source_id=source_id,
        to_ms=options.to_ms,
        shift_ms=shift_ms,
        stretches=stretches,
    )


def _cut(frame: DataFrame, stretch_rows: int) -> tuple[Stretch, ...]:
    """The rows in their order, so many at a time. Only places are sorted, not what the messages
    hold, and by all tasks together: each row's number is the rows of the tasks before its own, and
    its number there."""
    from pyspark.sql.functions import (
        col,
        create_map,
        lit,
        monotonically_increasing_id,
        spark_partition_id,
    )

    index = monotonically_increasing_id().bitwiseAND(_TASK_ROWS - 1)
    places = frame.select(*_ORDER).orderBy(*_ORDER)
    # Kept, so that all that is asked is of one reading: a topic may grow meanwhile.
    places = places.select("*", spark_partition_id().alias("task"), index.alias("index")).persist()
    try:
        counts = {int(task): int(rows) for task, rows in places.groupBy("task").count().collect()}
        if not counts:
            return ()
        tasks = sorted(counts)
        before = accumulate((counts[task] for task in tasks[:-1]), initial=0)
        pairs = [lit(each) for pair in zip(tasks, before, strict=True) for each in pair]
        number = create_map(*pairs)[col("task")] + col("index")
        return _stretches(places, number, stretch_rows)
    finally:
        places.unpersist()


def _stretches(places: DataFrame, number: Column, stretch_rows: int) -> tuple[Stretch, ...]:
    from pyspark.sql.functions import count, floor, struct, unix_micros
    from pyspark.sql.functions import max as greatest
    from pyspark.sql.functions import min as least

    place = struct(unix_micros("timestamp"), "topic", "partition", "offset")
    stretch = floor(number / stretch_rows).alias("stretch")
    found = places.groupBy(stretch, "topic", "partition").agg(
        count("*"), least("offset"), greatest("offset") + 1, least(place)
    )
    parts: dict[int, list[tuple[Place, int, Span]]] = {}
    for name, topic, partition, rows, first, end, begin in found.collect():
        span = Span(str(topic), int(partition), int(first), int(end))
        parts.setdefault(int(name), []).append((Place(*begin), int(rows), span))
    return tuple(
        Stretch(
            begin=min(begin for begin, _, _ in parts[name]),
            rows=sum(rows for _, rows, _ in parts[name]),
            spans=tuple(sorted(span for _, _, span in parts[name])),
        )
        for name in sorted(parts)
    )


# --- writing -----------------------------------------------------------------------------------


def write_planned(
    spark: SparkSession,
    options: ReplayOptions,
    plan: Plan,
    folder: str,
    told: Told,
    is_stopping: Callable[[], bool],
) -> tuple[bool, int]:
    """What of the plan is not written yet: whether all of it is now, and how much is."""
    pace = Pace(options.rows_per_s)
    done = _rows_written(options, plan, folder)
    told(done, plan.rows)
    end = 0
    for number, stretch in enumerate(plan.stretches):
        first, end = end, end + stretch.rows
        if done >= end:
            continue
        with _stretch_rows(spark, options, plan, number) as rows:
            while done < end:
                if not _wait(pace, is_stopping):
                    return False, done
                count = min(_chunk_rows(options), end - done)
                pace.begin(count, time.monotonic())
                chunk = rows.where(f"number >= {done - first} AND number < {done - first + count}")
                _write_chunk(chunk, options, plan, done + count)
                done += count
                save_progress(folder, done)
                told(done, plan.rows)
    return True, done


def _rows_written(options: ReplayOptions, plan: Plan, folder: str) -> int:
    """As the broker has it: a process may be killed before it has noted what it wrote. What it
    noted counts where the broker was not asked for so long that it has forgotten."""
    write = write_name(plan.name, options.topic)
    return max(load_progress(folder), shared_client(options.bootstrap).committed_epoch(write) or 0)


def _chunk_rows(options: ReplayOptions) -> int:
    """How many rows are written at once, at most."""
    if options.rows_per_s is None:
        return _STRETCH_ROWS
    return max(1, int(options.rows_per_s * _CHUNK_SECONDS))


def _wait(pace: Pace, is_stopping: Callable[[], bool]) -> bool:
    """Until the next chunk may be written; False if it is not to be."""
    while (wait_s := pace.wait_s(time.monotonic())) > 0 and not is_stopping():
        time.sleep(min(wait_s, 0.2))
    return not is_stopping()


@contextmanager
def _stretch_rows(
    spark: SparkSession, options: ReplayOptions, plan: Plan, number: int
) -> Iterator[DataFrame]:
    """The rows of a stretch, in one task in their order, numbered from 0. They are kept while they
    are written, chunk by chunk."""
    from pyspark.sql.functions import monotonically_increasing_id

    stretch = plan.stretches[number]
    frame = _selected(_read(spark, options, stretch.spans), options, plan.to_ms)
    frame = frame.where(_is_from(stretch.begin))
    if options.is_folder:
        # It says nothing new, but files are passed over by it. Of a topic the first offset is
        # asked for as it is, so that the source explains why it is gone if it is.
        frame = frame.where(_is_timed(stretch.begin, ">="))
    if number + 1 < len(plan.stretches):
        following = plan.stretches[number + 1].begin
        frame = frame.where(~_is_from(following)).where(_is_timed(following, "<="))
    frame = frame.select(*_NEEDED).repartition(1).sortWithinPartitions(*_ORDER)
    rows = frame.withColumn("number", monotonically_increasing_id()).persist()
    try:
        _check_rows(rows.count(), stretch, options)
        yield rows
    finally:
        rows.unpersist()


def _check_rows(found: int, stretch: Stretch, options: ReplayOptions) -> None:
    """A row that is missing would be a loss that nobody sees, and shift those behind it."""
    if found != stretch.rows:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=stretch.begin.time_us)
        raise InvalidConfig(
            f"{options.source} has {found} of the {stretch.rows} messages from {at.isoformat()} on "
            f"that were there when the replay was planned: some were removed, or --where says "
            f"something else of them by now; replay the rest with another checkpoint, and "
            f"--from-time."
        )


def _write_chunk(chunk: DataFrame, options: ReplayOptions, plan: Plan, rows_written: int) -> None:
    """Write rows with which so many are written."""
    from pyspark.sql.functions import col, timestamp_micros, unix_micros

    timestamp = timestamp_micros(unix_micros("timestamp") + plan.shift_ms * 1000)
    columns = [col("key"), col("value"), col("headers"), timestamp.alias("timestamp")]
    if options.keep_partition:
        columns.append(col("partition"))
    writer = chunk.select(*columns).write.format("penstock").mode("append")
    writer = writer.option("bootstrap", options.bootstrap).option("topic", options.topic)
    writer.option("txnAppId", plan.name).option("txnVersion", str(rows_written)).save()


# --- reading -----------------------------------------------------------------------------------


def _read(
    spark: SparkSession, options: ReplayOptions, spans: Sequence[Span] | None = None
) -> DataFrame:
    """All that the source has, or what it has within the spans."""
    if options.is_folder:
        return _read_folder(spark, options.source, spans)
    reader = spark.read.format("penstock").option("bootstrap", options.bootstrap)
    reader = reader.option("includeHeaders", "true")
    if spans is None:
        return reader.option("subscribe", options.source).load()
    partitions = [span.partition for span in spans]
    starts = {str(span.partition): span.first_offset for span in spans}
    ends = {str(span.partition): span.end_offset for span in spans}
    reader = reader.option("assign", json.dumps({options.source: partitions}))
    reader = reader.option("startingOffsets", json.dumps({options.source: starts}))
    return reader.option("endingOffsets", json.dumps({options.source: ends})).load()


def _read_folder(spark: SparkSession, folder: str, spans: Sequence[Span] | None) -> DataFrame:
    from pyspark.sql.functions import broadcast, col

    if next(parquet_files(folder), None) is None:
        raise InvalidConfig(f"{folder} has no Parquet files: is it an archive?")
    frame = spark.read.parquet(folder)
    missing = [name for name in _NEEDED if name not in frame.columns]
    if missing:
        raise InvalidConfig(f"{folder} is no archive: its files have no {', '.join(missing)}.")
    if spans is None:
        return frame
    known = spark.createDataFrame(
        list(spans), "topic string, partition int, first_offset long, end_offset long"
    )
    # As a table, since an archive may have thousands of partitions.
    frame = frame.join(broadcast(known), ["topic", "partition"])
    is_within = (col("offset") >= col("first_offset")) & (col("offset") < col("end_offset"))
    return frame.where(is_within).drop("first_offset", "end_offset")


def _selected(frame: DataFrame, options: ReplayOptions, to_ms: int | None) -> DataFrame:
    """The rows that are asked for. The time is given, because `10m-ago` moves on."""
    from pyspark.sql.functions import col, expr, lit, timestamp_millis

    if to_ms is not None:
        frame = frame.where(col("timestamp") < timestamp_millis(lit(to_ms)))
    if options.offsets is not None:
        ranges = [_is_between(*each) for each in options.offsets.items()]
        chosen = ranges[0]
        for each in ranges[1:]:
            chosen = chosen | each
        frame = frame.where(chosen)
    if options.where is None:
        return frame
    with part("--where"):
        # In brackets: alone, Spark takes a word that is left over (`a = 1 AND`) for a name. And a
        # comment may be its end.
        return frame.where(expr(f"({options.where}\n)"))


def _is_between(partition: int, offsets: tuple[int, int | None]) -> Column:
    from pyspark.sql.functions import col

    start, end = offsets
    chosen = (col("partition") == partition) & (col("offset") >= start)
    return chosen if end is None else chosen & (col("offset") < end)


def _is_from(place: Place) -> Column:
    """Whether a row is at this place or behind it."""
    from pyspark.sql.functions import lit, struct, timestamp_micros

    here = struct(
        timestamp_micros(lit(place.time_us)).alias("timestamp"),
        lit(place.topic).alias("topic"),
        lit(place.partition).alias("partition"),
        lit(place.offset).cast("long").alias("offset"),
    )
    return struct(*_ORDER) >= here


def _is_timed(place: Place, comparison: Literal["<=", ">="]) -> Column:
    """Whether a row's time is as the place's or on that side of it."""
    from pyspark.sql.functions import expr

    return expr(f"timestamp {comparison} timestamp_micros({place.time_us})")
