"""Filters as bounds."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from penstock.model.ids import TopicPartition
from penstock.spark.planning.pushdown import Bounds, push_filters
from penstock.spark.planning.ranges import OffsetRange

PARTITION, OFFSET, TOPIC, TIME = ("partition",), ("offset",), ("topic",), ("timestamp",)
NOON = datetime(2026, 1, 1, 12, 0, 0, 500, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (EqualTo(PARTITION, 1), Bounds(partitions=frozenset({1}))),
        (EqualNullSafe(PARTITION, 1), Bounds(partitions=frozenset({1}))),
        (In(PARTITION, (1, 3, None)), Bounds(partitions=frozenset({1, 3}))),
        (EqualTo(TOPIC, "orders"), Bounds(topics=frozenset({"orders"}))),
        (In(TOPIC, ("a", "b")), Bounds(topics=frozenset({"a", "b"}))),
        (EqualTo(OFFSET, 7), Bounds(offset_min=7, offset_end=8)),
        (GreaterThan(OFFSET, 7), Bounds(offset_min=8)),
        (GreaterThanOrEqual(OFFSET, 7), Bounds(offset_min=7)),
        (LessThan(OFFSET, 7), Bounds(offset_end=7)),
        (LessThanOrEqual(OFFSET, 7), Bounds(offset_end=8)),
        (In(OFFSET, (7, 8)), Bounds(offset_min=7, offset_end=9)),
        (IsNotNull(OFFSET), Bounds()),
        (IsNotNull(TIME), Bounds()),
    ],
)
def test_filters_that_reading_less_meets_exactly(given: Filter, bounds: Bounds) -> None:
    assert push_filters([given]) == (bounds, [])


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        (In(OFFSET, (7, 9)), Bounds(offset_min=7, offset_end=10)),
        (GreaterThanOrEqual(TIME, NOON), Bounds(time_ms_min=NOON_MS)),
        (GreaterThan(TIME, NOON), Bounds(time_ms_min=NOON_MS)),
        (EqualTo(TIME, NOON), Bounds(time_ms_min=NOON_MS)),
        (In(TIME, (NOON,)), Bounds(time_ms_min=NOON_MS)),
    ],
)
def test_filters_that_narrow_and_are_applied_again(given: Filter, bounds: Bounds) -> None:
    assert push_filters([given]) == (bounds, [given])


@pytest.mark.parametrize(
    "given",
    [
        LessThan(TIME, NOON),
        GreaterThan(TIME, NOON.replace(tzinfo=None)),
        GreaterThan(PARTITION, 1),
        Not(EqualTo(PARTITION, 1)),
        StringStartsWith(TOPIC, "o"),
        EqualTo(OFFSET, 7.5),
        EqualTo(PARTITION, None),
        EqualTo(OFFSET, True),
        Not(LessThan(OFFSET, 7)),
        StringStartsWith(OFFSET, "7"),
        IsNull(OFFSET),
        IsNotNull(("key",)),
        IsNotNull(("value", "offset")),
        EqualTo(("value", "offset"), 7),
    ],
)
def test_filters_that_are_sparks_alone(given: Filter) -> None:
    assert push_filters([given]) == (Bounds(), [given])


def test_several_filters_hold_together() -> None:
    bounds, left = push_filters(
        [
            GreaterThan(OFFSET, 5),
            GreaterThan(OFFSET, 3),
            LessThan(OFFSET, 90),
            LessThan(OFFSET, 95),
            In(PARTITION, (0, 1)),
            In(PARTITION, (1, 2)),
            In(TOPIC, ("a", "b")),
            EqualTo(TOPIC, "b"),
            GreaterThan(TIME, NOON),
            GreaterThan(TIME, NOON.replace(year=2025)),
        ]
    )
    assert bounds == Bounds(
        topics=frozenset({"b"}),
        partitions=frozenset({1}),
        offset_min=6,
        offset_end=90,
        time_ms_min=NOON_MS,
    )
    assert len(left) == 2


def test_a_contradiction_reads_nothing() -> None:
    whole = OffsetRange(TopicPartition("orders", 0), 10, 100)
    for filters in (
        [EqualTo(OFFSET, 5)],
        [EqualTo(PARTITION, 1)],
        [EqualTo(TOPIC, "bills")],
        [In(OFFSET, ())],
        [EqualTo(PARTITION, 0), EqualTo(PARTITION, 1)],
    ):
        bounds, left = push_filters(filters)
        assert bounds.narrowed(whole).size <= 0
        assert not left


def test_a_range_is_narrowed() -> None:
    whole = OffsetRange(TopicPartition("orders", 0), 10, 100)
    bounds, _ = push_filters([GreaterThan(OFFSET, 50), LessThan(OFFSET, 60)])
    assert bounds.narrowed(whole) == OffsetRange(whole.partition, 51, 60)
    assert Bounds().narrowed(whole) == whole
