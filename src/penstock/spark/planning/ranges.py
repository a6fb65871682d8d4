"""Ranges of offsets, and how they become Spark's tasks. Pure.

The invariant: the parts of a range are whole numbers of offsets, touch each other, and together
are the range: nothing is read twice and nothing left out, however it is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.model.ids import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of a partition: `start` up to, not including, `end`."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.partition.topic}[{self.partition.partition}] {self.start} to {self.end}"


def split_ranges(
    ranges: Iterable[OffsetRange], parts_min: int | None, rows_max: int | None
) -> list[OffsetRange]:
    """The ranges that have offsets, the large ones cut.

    rows_max: no part is larger. parts_min: so many parts at least, where there are as many
    offsets; a range is cut into a number of parts in proportion to its size.
    """
    whole = [each for each in ranges if each.size > 0]
    if rows_max is not None:
        whole = [part for each in whole for part in _cut(each, -(-each.size // rows_max))]
    if parts_min is None or len(whole) >= parts_min:
        return whole
    counts = shares([each.size for each in whole], parts_min)
    return [part for each, count in zip(whole, counts, strict=True) for part in _cut(each, count)]


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """The total handed out in proportion to the sizes: at least 1 each and at most its size.

    The result adds up to the total, or to the number of sizes or the sum of sizes where the total
    lies beyond these. All sizes are at least 1.
    """
    room = sum(sizes)
    left = min(max(total, len(sizes)), room)
    counts = []
    for waiting, size in zip(range(len(sizes) - 1, -1, -1), sizes, strict=True):
        fair = (left * size + room // 2) // room
        # What those who wait cannot take is given now, and what they need is kept for them.
        count = min(max(fair, 1, left - (room - size)), size, left - waiting)
        counts.append(count)
        left -= count
        room -= size
    return counts


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [whole.start + whole.size * part // count for part in range(count + 1)]
    return [OffsetRange(whole.partition, start, end) for start, end in pairwise(edges)]
