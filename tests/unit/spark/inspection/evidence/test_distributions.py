"""Percentiles, Gini, Lorenz and classes from counts (R-SPK-3)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.inspection.evidence.distributions import (
    BUCKETS_MAX,
    WIDE_CLASSES_MAX,
    bucket_width_ms,
    gini,
    lorenz,
    percentile,
    visible_range_ms,
    wide_classes,
    without,
)


def test_a_percentile_is_the_value_that_the_share_does_not_exceed() -> None:
    classes = [(1, 50), (10, 49), (1000, 1)]
    assert percentile(classes, 0.5) == 1
    assert percentile(classes, 0.51) == 10
    assert percentile(classes, 0.99) == 10
    assert percentile(classes, 1.0) == 1000
    assert percentile([], 0.5) == 0


def test_a_part_is_taken_out_of_a_histogram() -> None:
    assert without([(1, 5), (2, 3), (9, 1)], {2: 3, 9: 0}) == [(1, 5), (9, 1)]


@given(st.lists(st.integers(1, 50), min_size=1, max_size=40))
def test_gini_equals_its_definition(messages: list[int]) -> None:
    """The mean difference of any two keys over twice the mean."""
    count, total = len(messages), sum(messages)
    differences = sum(abs(one - other) for one in messages for other in messages)
    by_count = sorted((size, messages.count(size)) for size in set(messages))
    assert gini(by_count) == pytest.approx(differences / (2 * count * total))


def test_gini_of_equal_keys_is_zero_and_of_none_too() -> None:
    assert gini([(7, 1000)]) == 0
    assert gini([]) == 0


@given(st.dictionaries(st.integers(1, 10**6), st.integers(1, 10**6), min_size=1, max_size=300))
def test_the_lorenz_curve_rises_below_the_diagonal_to_the_corner(counts: dict[int, int]) -> None:
    points = lorenz(sorted(counts.items()))
    assert [points[0], points[-1]] == [(0, 0), (1, 1)]
    assert len(points) <= 67
    for (x, y), (next_x, next_y) in pairwise(points):
        assert x < next_x
        assert y < next_y
        assert y <= x + 1e-9


@given(st.dictionaries(st.integers(0, 2**40), st.integers(1, 9), min_size=1, max_size=50))
def test_wide_classes_hold_everything_side_by_side(counts: dict[int, int]) -> None:
    histogram = sorted(counts.items())
    classes = wide_classes(histogram)
    assert sum(count for _, _, count in classes) == sum(counts.values())
    assert len(classes) <= WIDE_CLASSES_MAX
    assert classes[0][0] <= histogram[0][0]
    assert classes[-1][1] > histogram[-1][0]
    for (_, end, _), (low, _, _) in pairwise(classes):
        assert end == low


def test_wide_classes_are_quarters_of_a_doubling_where_there_is_room() -> None:
    assert wide_classes([(100, 2), (130, 1)]) == [(96, 112, 2), (112, 128, 0), (128, 160, 1)]
    assert wide_classes([]) == []


@pytest.mark.parametrize("span_ms", [0, 1, 900, 960, 961, 3_600_000, 86_400_000 * 365, 10**15])
def test_there_are_never_more_buckets_than_can_be_drawn(span_ms: int) -> None:
    assert span_ms / bucket_width_ms(span_ms) <= BUCKETS_MAX


def test_one_wrong_clock_does_not_stretch_the_time_chart() -> None:
    assert visible_range_ms(1_000, 2_000, 1_010, 1_990) == (1_000, 2_000)
    low, high = visible_range_ms(0, 10**12, 1_000_000, 1_060_000)
    assert (low, high) == (940_000, 1_120_000)
