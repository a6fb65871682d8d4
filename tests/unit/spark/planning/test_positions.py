"""Starts and ends as offsets."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.model.ids import TopicPartition
from penstock.spark.planning.extent import Extent
from penstock.spark.planning.positions import (
    AtEdge,
    AtOffsets,
    AtTimes,
    Position,
    parse_assignment,
    parse_by_partition,
    resolve_end,
    resolve_start,
)

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
EXTENTS = {ZERO: Extent(10, 100, "id"), ONE: Extent(0, 50, "id")}


def find_time(partition: TopicPartition, time_ms: int) -> int:
    """A message a millisecond."""
    extent = EXTENTS[partition]
    return min(max(time_ms, extent.start_offset), extent.end_offset)


def start(position: Position) -> list[int]:
    return [resolve_start(position, EXTENTS, find_time)[place] for place in (ZERO, ONE)]


def end(position: Position) -> list[int]:
    return [resolve_end(position, EXTENTS, find_time)[place] for place in (ZERO, ONE)]


def offsets(zero: int, one: int) -> AtOffsets:
    return AtOffsets(option="startingOffsets", offsets={ZERO: zero, ONE: one})


def test_edges() -> None:
    assert start(AtEdge(edge="earliest")) == [10, 0]
    assert start(AtEdge(edge="latest")) == [100, 50]
    assert end(AtEdge(edge="latest")) == [100, 50]


def test_offsets_by_number() -> None:
    assert start(offsets(20, -2)) == [20, 0]
    assert end(offsets(-1, 50)) == [100, 50]
    # Gone, which is for those to say who know why.
    assert start(offsets(3, 0)) == [3, 0]


def test_offsets_beyond_the_end_are_an_error() -> None:
    with pytest.raises(InvalidConfig, match=r"101 for orders\[0\], which ends at 100"):
        start(offsets(101, 0))


def test_every_partition_is_named_and_no_other() -> None:
    with pytest.raises(InvalidConfig, match=r"leaves out orders\[1\]"):
        start(AtOffsets(option="startingOffsets", offsets={ZERO: 20}))
    other = TopicPartition("bills", 0)
    with pytest.raises(InvalidConfig, match=r"names bills\[0\], which is not read"):
        start(AtOffsets(option="startingOffsets", offsets={ZERO: 20, ONE: 0, other: 1}))


def test_many_missing_partitions_are_counted() -> None:
    extents = {TopicPartition("orders", number): Extent(0, 1, None) for number in range(10)}
    position = AtOffsets(option="startingOffsets", offsets={})
    with pytest.raises(InvalidConfig, match="and 7 more"):
        resolve_start(position, extents, find_time)


def test_times() -> None:
    assert start(AtTimes(option="startingTimestamp", times_ms=40)) == [40, 40]
    by_partition = AtTimes(option="startingOffsetsByTimestamp", times_ms={ZERO: 60, ONE: 5})
    assert start(by_partition) == [60, 5]
    assert end(by_partition) == [60, 5]


def test_a_time_after_the_last_message() -> None:
    late = AtTimes(option="startingTimestamp", times_ms=60)
    with pytest.raises(InvalidConfig, match=r"orders\[1\] has no message from 60 ms on"):
        start(late)
    or_latest = AtTimes(option="startingTimestamp", times_ms=60, or_latest=True)
    assert start(or_latest) == [60, 50]
    assert end(late) == [60, 50]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"orders": {"0": 1, "0": 2}}', "'0'"),
        ('{"orders": {"0": 1}, "orders": {"1": 2}}', "'orders'"),
        ('{"orders": {"0": 1, "00": 2}}', r"orders\[0\]"),
    ],
)
def test_what_is_said_twice_is_refused(text: str, named: str) -> None:
    """To JSON the last one counts, and the other would be dropped in silence."""
    with pytest.raises(InvalidConfig, match=f"startingOffsets names {named} twice: say it once"):
        parse_by_partition("startingOffsets", text)


def test_a_topic_is_assigned_once() -> None:
    with pytest.raises(InvalidConfig, match="assign names 'orders' twice"):
        parse_assignment("assign", '{"orders": [0], "orders": [1]}')
