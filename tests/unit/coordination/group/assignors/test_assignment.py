"""Sets of partitions by topic."""

from __future__ import annotations

from penstock.coordination.group.assignors.assignment import (
    collect,
    count,
    intersect,
    partitions_of,
    subtract,
    unite,
)
from penstock.model.ids import TopicId

ONE, TWO = TopicId("1"), TopicId("2")
SOME = {ONE: (0, 2), TWO: (1,)}


def test_it_is_written_in_one_way_only() -> None:
    assert collect([(TWO, 1), (ONE, 2), (ONE, 0)]) == SOME
    assert list(collect([(TWO, 1), (ONE, 2), (ONE, 0)])) == [ONE, TWO]
    assert list(partitions_of(SOME)) == [(ONE, 0), (ONE, 2), (TWO, 1)]
    assert count(SOME) == 3


def test_operations_leave_no_topic_without_partitions() -> None:
    assert intersect(SOME, {ONE: (2, 3), TWO: (0,)}) == {ONE: (2,)}
    assert subtract(SOME, {ONE: (2, 3), TWO: (1,)}) == {ONE: (0,)}
    assert intersect(SOME, SOME) == SOME
    assert subtract(SOME, SOME) == {}
    assert subtract(SOME, {}) == SOME
    assert unite({ONE: (2,)}, {ONE: (0,), TWO: (1,)}) == SOME
    assert unite(SOME, {}) == SOME
