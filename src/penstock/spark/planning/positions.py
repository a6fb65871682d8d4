"""Where reading begins and ends, as the options say it, and what that means in offsets.

Pure: the extents of the partitions and a way to find an offset by time are given. The names and
rules are those of Spark's Kafka source: JSON per partition must name every partition, -2 is the
earliest and -1 the latest offset. The invariant: what `resolve_start` and `resolve_end` give lies
within the extents or is an offset that somebody asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from penstock.model.errors import InvalidConfig
from penstock.model.ids import TopicPartition, check_topic_name
from penstock.spark.planning.extent import Extent

LATEST: Final = -1
EARLIEST: Final = -2


@dataclass(frozen=True, slots=True, kw_only=True)
class AtEdge:
    """At the beginning or the end of every partition."""

    edge: Literal["earliest", "latest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffsets:
    """At an offset of its own in each partition; EARLIEST and LATEST stand for the edges."""

    option: str
    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTimes:
    """At the first message of a moment or later."""

    option: str
    times_ms: Mapping[TopicPartition, int] | int
    """One time for all partitions, or one for each."""
    or_latest: bool = False
    """A partition without such a message begins at its end, instead of being an error."""


Position = AtEdge | AtOffsets | AtTimes
FindTime = Callable[[TopicPartition, int], int]
"""The first offset of a partition with this time (ms) or a later one; its end if there is none."""


def resolve_start(
    position: Position, extents: Mapping[TopicPartition, Extent], find_time: FindTime
) -> dict[TopicPartition, int]:
    """The first offset to read of each partition. One asked for by number may be gone."""
    match position:
        case AtEdge(edge=edge):
            is_earliest = edge == "earliest"
            return {
                partition: extent.start_offset if is_earliest else extent.end_offset
                for partition, extent in extents.items()
            }
        case AtOffsets():
            return _numbered(position, extents)
        case AtTimes():
            found: dict[TopicPartition, int] = {}
            for partition, time_ms in _times(position, extents).items():
                offset = find_time(partition, time_ms)
                if offset >= extents[partition].end_offset and not position.or_latest:
                    raise InvalidConfig(
                        f"{position.option}: {_name(partition)} has no message from {time_ms} ms "
                        f"on; give an earlier time, or startingOffsetsByTimestampStrategy=latest "
                        f"to begin at its end."
                    )
                found[partition] = offset
            return found
    assert_never(position)


def resolve_end(
    position: Position, extents: Mapping[TopicPartition, Extent], find_time: FindTime
) -> dict[TopicPartition, int]:
    """The offset after the last to read of each partition."""
    match position:
        case AtEdge():
            return {partition: extent.end_offset for partition, extent in extents.items()}
        case AtOffsets():
            return _numbered(position, extents)
        case AtTimes():
            return {
                partition: find_time(partition, time_ms)
                for partition, time_ms in _times(position, extents).items()
            }
    assert_never(position)


def parse_edge_or_offsets(option: str, text: str) -> AtEdge | AtOffsets:
    """`earliest`, `latest` or JSON with an offset for each partition."""
    lower = text.strip().lower()
    if lower == "earliest":
        return AtEdge(edge="earliest")
    if lower == "latest":
        return AtEdge(edge="latest")
    offsets = parse_by_partition(option, text)
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise InvalidConfig(
                f"{option} has {offset} for {_name(partition)}: give an offset, {LATEST} for the "
                f"latest or {EARLIEST} for the earliest."
            )
    return AtOffsets(option=option, offsets=offsets)


def parse_by_partition(option: str, text: str) -> dict[TopicPartition, int]:
    """JSON as `{"orders": {"0": 23, "1": -2}}`."""
    example = '{"orders": {"0": 23, "1": -2}}'
    parsed = _parse_json(option, text, example)
    numbers: dict[TopicPartition, int] = {}
    for topic, by_partition in parsed.items():
        if not isinstance(by_partition, dict):
            raise InvalidConfig(f"{option} is {text!r}: write it as {example}.")
        for partition, value in by_partition.items():
            if not partition.isdecimal() or type(value) is not int:
                raise InvalidConfig(f"{option} is {text!r}: write it as {example}.")
            place = TopicPartition(check_topic_name(topic), int(partition))
            if place in numbers:
                raise InvalidConfig(f"{option} names {_name(place)} twice: say it once.")
            numbers[place] = value
    return numbers


def parse_assignment(option: str, text: str) -> frozenset[TopicPartition]:
    """JSON as `{"orders": [0, 1]}`."""
    example = '{"orders": [0, 1]}'
    assigned: set[TopicPartition] = set()
    for topic, partitions in _parse_json(option, text, example).items():
        if not isinstance(partitions, list) or not partitions:
            raise InvalidConfig(f"{option} is {text!r}: write it as {example}.")
        for partition in partitions:
            if type(partition) is not int or partition < 0:
                raise InvalidConfig(f"{option} is {text!r}: write it as {example}.")
            assigned.add(TopicPartition(check_topic_name(topic), partition))
    if not assigned:
        raise InvalidConfig(f"{option} names no partition: write it as {example}.")
    return frozenset(assigned)


def _parse_json(option: str, text: str, example: str) -> dict[str, object]:
    def once(members: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in members]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            # JSON has the last of them count, and the others would be dropped without a word.
            raise InvalidConfig(f"{option} names {twice[0]!r} twice: say it once.")
        return dict(members)

    try:
        parsed = json.loads(text, object_pairs_hook=once)
    except ValueError as error:
        raise InvalidConfig(
            f"{option} is {text!r}, which is not JSON ({error}): write it as {example}."
        ) from None
    if not isinstance(parsed, dict):
        raise InvalidConfig(f"{option} is {text!r}: write it as {example}.")
    return parsed


def _numbered(
    position: AtOffsets, extents: Mapping[TopicPartition, Extent]
) -> dict[TopicPartition, int]:
    _check_complete(position.option, position.offsets, extents)
    resolved: dict[TopicPartition, int] = {}
    for partition, extent in extents.items():
        offset = position.offsets[partition]
        if offset == LATEST:
            offset = extent.end_offset
        elif offset == EARLIEST:
            offset = extent.start_offset
        if offset > extent.end_offset:
            raise InvalidConfig(
                f"{position.option} is {offset} for {_name(partition)}, which ends at "
                f"{extent.end_offset}: give an offset up to there, or {LATEST} for the latest."
            )
        resolved[partition] = offset
    return resolved


def _times(
    position: AtTimes, extents: Mapping[TopicPartition, Extent]
) -> dict[TopicPartition, int]:
    if isinstance(position.times_ms, int):
        return dict.fromkeys(extents, position.times_ms)
    _check_complete(position.option, position.times_ms, extents)
    return {partition: position.times_ms[partition] for partition in extents}


def _check_complete(
    option: str,
    given: Mapping[TopicPartition, int],
    extents: Mapping[TopicPartition, Extent],
) -> None:
    """Neither more nor fewer partitions than there are to read."""
    if missing := sorted(extents.keys() - given.keys()):
        raise InvalidConfig(
            f"{option} leaves out {_names(missing)}: name every partition, with {EARLIEST} for "
            f"its earliest offset and {LATEST} for its latest."
        )
    if foreign := sorted(given.keys() - extents.keys()):
        raise InvalidConfig(f"{option} names {_names(foreign)}, which is not read: leave it out.")


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}[{partition.partition}]"


def _names(partitions: list[TopicPartition]) -> str:
    few = ", ".join(_name(partition) for partition in partitions[:3])
    return few if len(partitions) <= 3 else f"{few} and {len(partitions) - 3} more"
