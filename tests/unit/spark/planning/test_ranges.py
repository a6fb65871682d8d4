"""Ranges and their parts."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.ids import TopicPartition
from penstock.spark.planning.ranges import OffsetRange, shares, split_ranges

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=12)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [
        OffsetRange(TopicPartition("orders", number), 7, 7 + size)
        for number, size in enumerate(sizes)
    ]


@given(SIZES, st.none() | st.integers(1, 64), st.none() | st.integers(100, 5_000))
def test_parts_are_the_whole(sizes: list[int], parts_min: int | None, rows_max: int | None) -> None:
    """R-SPK-1: however partitions are split for parallel reading, each offset is read once."""
    parts = split_ranges(ranges_of(sizes), parts_min, rows_max)
    for whole in ranges_of(sizes):
        own = [part for part in parts if part.partition == whole.partition]
        assert sum(part.size for part in own) == whole.size
        if own:
            assert (own[0].start, own[-1].end) == (whole.start, whole.end)
        assert all(left.end == right.start for left, right in pairwise(own))
    assert all(part.size > 0 for part in parts)
    if rows_max is not None:
        assert all(part.size <= rows_max for part in parts)
    if parts_min is not None:
        assert len(parts) >= min(parts_min, sum(sizes))


@given(st.lists(st.integers(1, 1_000), min_size=1, max_size=20), st.integers(1, 30_000))
def test_shares(sizes: list[int], total: int) -> None:
    counts = shares(sizes, total)
    assert sum(counts) == min(max(total, len(sizes)), sum(sizes))
    assert all(1 <= count <= size for count, size in zip(counts, sizes, strict=True))


def test_shares_are_in_proportion() -> None:
    assert shares([100, 300, 600], 10) == [1, 3, 6]


def test_a_large_range_is_cut_more_often() -> None:
    parts = split_ranges(ranges_of([900, 100]), 10, None)
    assert [part.partition.partition for part in parts].count(0) == 9
    assert str(parts[0]) == "orders[0] 7 to 107"


def test_without_a_wish_nothing_is_cut() -> None:
    whole = ranges_of([900, 100])
    assert split_ranges(whole, None, None) == whole
    assert split_ranges(whole, 2, None) == whole
