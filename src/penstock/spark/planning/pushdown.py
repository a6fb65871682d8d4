"""Filters of a batch read as bounds on what is read at all. Pure.

Of `topic`, `partition` and `offset` comparisons with constants are exactly met by reading less, so
Spark need not look again. A lower bound on `timestamp` lets reading begin at the first message of
that time; rows after it may still be older, so Spark looks again. An upper bound on `timestamp`
does not end reading: a message with an earlier time may come after a later one.

The invariant: no row that the filters let through is left unread.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from penstock.spark.planning.ranges import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_NEVER_NULL: Final = ("topic", "partition", "offset", "timestamp", "timestampType")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What has to be read: None where there is no bound."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offset_min: int = 0
    offset_end: int | None = None
    """The offset after the last."""
    time_ms_min: int | None = None

    def narrowed(self, whole: OffsetRange) -> OffsetRange:
        """The part of a range that lies within; an empty one if there is none."""
        topic, number = whole.partition
        if (self.topics is not None and topic not in self.topics) or (
            self.partitions is not None and number not in self.partitions
        ):
            return whole._replace(end=whole.start)
        end = whole.end if self.offset_end is None else min(whole.end, self.offset_end)
        return whole._replace(start=max(whole.start, self.offset_min), end=end)


def push_filters(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """The bounds that the filters set together, and those that Spark has to apply itself."""
    bounds = Bounds()
    left: list[Filter] = []
    for each in filters:
        narrower, is_exact = _push(bounds, each)
        bounds = narrower
        if not is_exact:
            left.append(each)
    return bounds, left


def _push(bounds: Bounds, given: Filter) -> tuple[Bounds, bool]:
    """The bounds with one more filter, and whether they meet it exactly."""
    if isinstance(given, IsNotNull):
        return bounds, len(given.attribute) == 1 and given.attribute[0] in _NEVER_NULL
    column = getattr(given, "attribute", ())
    if column == ("topic",):
        return _push_topics(bounds, given)
    if column == ("partition",):
        return _push_partitions(bounds, given)
    if column == ("offset",):
        return _push_offsets(bounds, given)
    if column == ("timestamp",):
        return _push_time(bounds, given), False
    return bounds, False


def _push_topics(bounds: Bounds, given: Filter) -> tuple[Bounds, bool]:
    names = _equal_values(given, str)
    if names is None:
        return bounds, False
    wanted = names if bounds.topics is None else bounds.topics & names
    return replace(bounds, topics=frozenset(wanted)), True


def _push_partitions(bounds: Bounds, given: Filter) -> tuple[Bounds, bool]:
    numbers = _equal_values(given, int)
    if numbers is None:
        return bounds, False
    wanted = numbers if bounds.partitions is None else bounds.partitions & numbers
    return replace(bounds, partitions=frozenset(wanted)), True


def _push_offsets(bounds: Bounds, given: Filter) -> tuple[Bounds, bool]:
    is_exact = True
    values = _equal_values(given, int)
    if values is not None:
        least, end = (min(values), max(values) + 1) if values else (0, 0)
        # Several values have others between them.
        is_exact = len(values) == max(end - least, 0)
    else:
        value = getattr(given, "value", None)
        if type(value) is not int:
            return bounds, False
        least, end = 0, None
        match given:
            case GreaterThan():
                least = value + 1
            case GreaterThanOrEqual():
                least = value
            case LessThan():
                end = value
            case LessThanOrEqual():
                end = value + 1
            case _:
                return bounds, False
    if end is not None and (bounds.offset_end is None or end < bounds.offset_end):
        bounds = replace(bounds, offset_end=end)
    return replace(bounds, offset_min=max(bounds.offset_min, least)), is_exact


def _push_time(bounds: Bounds, given: Filter) -> Bounds:
    """Only from below, and rounded so that no millisecond is missed."""
    values = _equal_values(given, datetime)
    if values is None:
        value = getattr(given, "value", None)
        if not isinstance(given, GreaterThan | GreaterThanOrEqual) or type(value) is not datetime:
            return bounds
        values = {value}
    if not values or any(value.tzinfo is None for value in values):
        return bounds
    time_ms = (min(values) - _EPOCH) // _MILLISECOND
    if bounds.time_ms_min is not None and bounds.time_ms_min >= time_ms:
        return bounds
    return replace(bounds, time_ms_min=time_ms)


def _equal_values(given: Filter, kind: type) -> set[Any] | None:
    """The values that the column must have one of; None if the filter is of another kind."""
    match given:
        case EqualTo(value=value) | EqualNullSafe(value=value):
            values: tuple[Any, ...] = (value,)
        case In(value=several):
            values = tuple(value for value in several if value is not None)
        case _:
            return None
    if any(type(value) is not kind for value in values):
        return None
    return set(values)
