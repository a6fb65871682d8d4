"""What can be told of numbers once they are counted by class: percentiles, Gini, Lorenz, buckets.

Pure: the counting is Spark's (`inspection.classes`), and its results are small. A histogram is a
list of (lowest value of the class, how many), by value. The invariant: a percentile is the lowest
value of the class that holds it, so it is never above the true one and less than 1/32 below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Histogram = list[tuple[int, int]]

PERCENTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
# Buckets of time charts: a person knows what a bar of 15 minutes is.
_MILLISECONDS: Final = (10, 20, 50, 100, 200, 500)
_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
BUCKET_WIDTHS_MS: Final = (
    *_MILLISECONDS,
    *(_SECOND * count for count in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * count for count in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * count for count in (1, 2, 3, 6, 12)),
    *(_DAY * count for count in (1, 2, 7, 14, 30, 90, 365)),
)
BUCKETS_MAX: Final = 96
WIDE_CLASSES_MAX: Final = 48


def percentile(histogram: Sequence[tuple[int, int]], share: float) -> int:
    """The value that this share of all numbers does not exceed; 0 of nothing."""
    total = sum(count for _, count in histogram)
    wanted = share * total
    seen = 0
    for low, count in histogram:
        seen += count
        if seen >= wanted:
            return low
    return 0


def without(whole: Sequence[tuple[int, int]], part: Mapping[int, int]) -> Histogram:
    """The histogram of what is not in the part."""
    return [(low, left) for low, count in whole if (left := count - part.get(low, 0)) > 0]


def wide_classes(histogram: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """The histogram in classes wide enough to draw, from the lowest used to the highest, none
    left out: (low, end, how many). Four to every doubling, or one where that would be too many."""
    if not histogram:
        return []
    for bits in (2, 0):
        classes = {}
        low, last = _wide_class(histogram[0][0], bits)[0], histogram[-1][0]
        while low <= last:
            end = _wide_class(low, bits)[1]
            classes[low] = (low, end, 0)
            low = end
        if len(classes) <= WIDE_CLASSES_MAX:
            break
    for number, count in histogram:
        low, end = _wide_class(number, bits)
        classes[low] = (low, end, classes[low][2] + count)
    return list(classes.values())


def _wide_class(number: int, bits: int) -> tuple[int, int]:
    """Where the number's class begins and ends, with 2**bits classes to every doubling."""
    shift = max(0, number.bit_length() - 1 - bits)
    low = number >> shift << shift
    return low, low + (1 << shift)


def gini(keys_by_count: Sequence[tuple[int, int]]) -> float:
    """How unequal keys are, from (messages of a key, how many keys have so many), by messages.

    0: all have the same; towards 1: one has all. Exact: with keys sorted by their messages it is
    the area between the Lorenz curve and the diagonal, doubled, and keys of equal count lie on
    one straight piece of the curve.
    """
    keys = sum(count for _, count in keys_by_count)
    messages = sum(size * count for size, count in keys_by_count)
    if not messages:
        return 0.0
    area = 0  # twice the area under the curve, in keys times messages: whole numbers are exact
    reached = 0
    for size, count in keys_by_count:
        area += count * (2 * reached + size * count)
        reached += size * count
    return 1 - area / (keys * messages)


def lorenz(
    keys_by_count: Sequence[tuple[int, int]], points_max: int = 64
) -> list[tuple[float, float]]:
    """Points of the Lorenz curve: (share of the keys, smallest first; share of the messages)."""
    keys = sum(count for _, count in keys_by_count)
    messages = sum(size * count for size, count in keys_by_count)
    if not messages:
        return []
    points = [(0.0, 0.0)]
    seen_keys = seen_messages = 0
    for size, count in keys_by_count:
        seen_keys += count
        seen_messages += size * count
        point = (seen_keys / keys, seen_messages / messages)
        last = points[-1]
        # A step that no eye can see is left out; the corner (1, 1) is always there.
        if point[0] - last[0] + point[1] - last[1] >= 2 / points_max or seen_keys == keys:
            points.append(point)
    return points


def bucket_width_ms(span_ms: int) -> int:
    """The width of a time chart's buckets, so that there are enough and not too many."""
    for width in BUCKET_WIDTHS_MS:
        if span_ms <= width * BUCKETS_MAX:
            return width
    return -(-span_ms // BUCKETS_MAX)


def visible_range_ms(
    low_ms: int, high_ms: int, near_low_ms: int, near_high_ms: int
) -> tuple[int, int]:
    """Where a time chart begins and ends: at the first and last time, but not farther from the
    first and last percent than these from each other. One wrong clock must not squeeze the rest
    into a single bar."""
    span_ms = near_high_ms - near_low_ms
    return max(low_ms, near_low_ms - span_ms), min(high_ms, near_high_ms + span_ms)
