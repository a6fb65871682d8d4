"""The options of the source, checked: names and meanings of Spark's Kafka source, and our own.

Pure: nothing is asked of a broker here. The invariant: a `SourceOptions` contradicts nothing that
can be known without looking at the topics.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast

from penstock.model.errors import InvalidConfig
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.model.quantity import parse_duration_ms
from penstock.spark.option_values import (
    bootstrap_of,
    check_names,
    first_of,
    number,
    switch,
    text,
    warn_of_ignored,
)
from penstock.spark.planning.positions import (
    EARLIEST,
    LATEST,
    AtEdge,
    AtOffsets,
    AtTimes,
    Position,
    parse_assignment,
    parse_by_partition,
    parse_edge_or_offsets,
)

OPTION_NAMES: Final = (
    "bootstrap",
    "kafka.bootstrap.servers",
    "path",
    "onDamage",
    "subscribe",
    "topic",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
    "includeBatch",
    "failOnDataLoss",
    "groupId",
    "kafka.group.id",
    "valueFormat",
    "valueSchema",
    "csvDelimiter",
    "avroFraming",
)
# What `penstock.spark.values` takes besides the format and the schema.
VALUE_OPTIONS: Final = ("csvDelimiter", "avroFraming")
# As Spark's Kafka source has it.
TRIGGER_DELAY_MS_DEFAULT: Final = 15 * 60 * 1000
# Spark's Kafka source lets a batch read have them, and takes no notice.
_ONLY_FOR_STREAMS: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ONLY_FOR_BATCHES: Final = ("path", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which partitions are read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What one DataFrame reads, and how."""

    bootstrap: str | None
    path: str | None
    """The data folder to read instead of a broker."""
    on_damage: Literal["fail", "skip"]
    selection: Selection
    start: Position | None
    """None: earliest in a batch read, latest in a stream."""
    end: Position
    trigger_rows_max: int | None
    trigger_rows_min: int | None
    trigger_delay_ms_max: int
    """A batch waits no longer than this for its least number of rows."""
    partitions_min: int | None
    partition_rows_max: int | None
    include_headers: bool
    include_batch: bool
    fail_on_data_loss: bool
    group: str | None
    value_format: str | None
    value_schema: str | None
    value_options: Mapping[str, str]
    ignored: tuple[str, ...]
    """Options that were given and have no effect here."""


def parse_options(options: Mapping[str, str]) -> SourceOptions:
    """The options of a read, or InvalidConfig with what is wrong with them."""
    ignored = check_names(options, OPTION_NAMES)
    bootstrap, path = bootstrap_of(options), text(options, "path")
    if (bootstrap is None) == (path is None):
        raise InvalidConfig(
            "Where to read from is not said: give the option bootstrap (as 127.0.0.1:9092), or "
            "path for a data folder, and not both."
        )
    value_format, value_schema = text(options, "valueFormat"), text(options, "valueSchema")
    if (value_format is None) != (value_schema is None):
        raise InvalidConfig("valueFormat and valueSchema go together: give both or neither.")
    return SourceOptions(
        bootstrap=bootstrap,
        path=path,
        on_damage=_on_damage(options),
        selection=_selection(options),
        start=_start(options),
        end=_end(options),
        trigger_rows_max=number(options, "maxOffsetsPerTrigger"),
        trigger_rows_min=number(options, "minOffsetsPerTrigger"),
        trigger_delay_ms_max=_duration_ms(options, "maxTriggerDelay", TRIGGER_DELAY_MS_DEFAULT),
        partitions_min=number(options, "minPartitions"),
        partition_rows_max=number(options, "maxRecordsPerPartition"),
        include_headers=switch(options, "includeHeaders", default=False),
        include_batch=switch(options, "includeBatch", default=False),
        fail_on_data_loss=switch(options, "failOnDataLoss", default=True),
        group=first_of(options, "groupId", "kafka.group.id"),
        value_format=value_format,
        value_schema=value_schema,
        value_options={
            name: value for name in VALUE_OPTIONS if (value := text(options, name)) is not None
        },
        ignored=tuple(ignored),
    )


def check_batch(options: SourceOptions, given: Mapping[str, str]) -> None:
    """Raise InvalidConfig for what makes no sense in a batch read."""
    warn_of_ignored([name for name in _ONLY_FOR_STREAMS if text(given, name) is not None])
    if _begins_at_end(options.start):
        raise InvalidConfig(
            "A batch read that starts at the latest offset is empty: give another startingOffsets."
        )
    if isinstance(options.end, AtEdge) and options.end.edge == "earliest":
        raise InvalidConfig(
            "A batch read that ends at the earliest offset is empty: give another endingOffsets."
        )
    if isinstance(options.end, AtOffsets) and EARLIEST in options.end.offsets.values():
        raise InvalidConfig(
            f"endingOffsets has {EARLIEST} (earliest), which reads nothing: give an offset, or "
            f"{LATEST} for the latest."
        )


def check_stream(options: SourceOptions, given: Mapping[str, str]) -> None:
    """Raise InvalidConfig for what makes no sense in a stream."""
    for name in _ONLY_FOR_BATCHES:
        if text(given, name) is not None:
            raise InvalidConfig(f"{name} is for batch reads: leave it out of a stream.")
    least, most = options.trigger_rows_min, options.trigger_rows_max
    if least is not None and most is not None and least > most:
        raise InvalidConfig(
            f"minOffsetsPerTrigger is {least} and maxOffsetsPerTrigger {most}: the least cannot "
            f"be more than the most."
        )


def _begins_at_end(start: Position | None) -> bool:
    if isinstance(start, AtEdge):
        return start.edge == "latest"
    return isinstance(start, AtOffsets) and LATEST in start.offsets.values()


def _selection(options: Mapping[str, str]) -> Selection:
    subscribe = first_of(options, "subscribe", "topic")
    pattern, assign = text(options, "subscribePattern"), text(options, "assign")
    if [subscribe, pattern, assign].count(None) != 2:
        raise InvalidConfig(
            "What to read is not said: give exactly one of subscribe, subscribePattern and assign."
        )
    if assign is not None:
        return Selection(partitions=parse_assignment("assign", assign))
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise InvalidConfig(
                f"subscribePattern is {pattern!r}, which is no regular expression: {error}."
            ) from None
        return Selection(pattern=pattern)
    assert subscribe is not None
    topics = tuple(dict.fromkeys(name.strip() for name in subscribe.split(",") if name.strip()))
    if not topics:
        raise InvalidConfig("subscribe names no topic: give one or more, separated by commas.")
    return Selection(topics=tuple(check_topic_name(name) for name in topics))


def _start(options: Mapping[str, str]) -> Position | None:
    """As in Spark: one time for all comes first, then times, then offsets."""
    or_latest = _or_latest(options)
    if (time_ms := number(options, "startingTimestamp", least=0)) is not None:
        return AtTimes(option="startingTimestamp", times_ms=time_ms, or_latest=or_latest)
    name = "startingOffsetsByTimestamp"
    if (given := text(options, name)) is not None:
        return AtTimes(option=name, times_ms=_times(name, given), or_latest=or_latest)
    if (given := text(options, "startingOffsets")) is not None:
        return parse_edge_or_offsets("startingOffsets", given)
    return None


def _end(options: Mapping[str, str]) -> Position:
    if (time_ms := number(options, "endingTimestamp", least=0)) is not None:
        return AtTimes(option="endingTimestamp", times_ms=time_ms)
    name = "endingOffsetsByTimestamp"
    if (given := text(options, name)) is not None:
        return AtTimes(option=name, times_ms=_times(name, given))
    return parse_edge_or_offsets("endingOffsets", text(options, "endingOffsets") or "latest")


def _times(option: str, given: str) -> dict[TopicPartition, int]:
    times_ms = parse_by_partition(option, given)
    if any(time_ms < 0 for time_ms in times_ms.values()):
        raise InvalidConfig(f"{option} has a time before 1970: times are milliseconds since then.")
    return times_ms


def _or_latest(options: Mapping[str, str]) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    strategy = (text(options, name) or "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidConfig(f"{name} is {strategy!r}: it can be error or latest.")
    return strategy == "latest"


def _on_damage(options: Mapping[str, str]) -> Literal["fail", "skip"]:
    given = (text(options, "onDamage") or "fail").strip().lower()
    if given not in ("fail", "skip"):
        raise InvalidConfig(f"onDamage is {given!r}: it can be fail or skip.")
    return cast(Literal["fail", "skip"], given)


def _duration_ms(options: Mapping[str, str], name: str, default_ms: int) -> int:
    """A time as Spark writes it: 15m, 30s, 500ms."""
    given = text(options, name)
    if given is None:
        return default_ms
    duration_ms = parse_duration_ms(given)
    if duration_ms is None or duration_ms < 0:
        raise InvalidConfig(f"{name} is {given!r}: write it as 30s, 15m or 500ms.")
    return duration_ms
