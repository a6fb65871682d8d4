"""How much of what is there goes into the next batch of a stream. Pure.

As Spark's Kafka source does it, each partition gets a share in proportion to what it has; other
than there the limit is kept also where there are more partitions than it has rows: then they take
turns. The invariant: no partition's end is before its begin or after what it has, and the sum is
the limit or everything.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model.ids import TopicPartition
from penstock.spark.planning.ranges import shares

Offsets = Mapping[TopicPartition, int]


def available_rows(begins: Offsets, ends: Offsets) -> int:
    """How many offsets there are to read."""
    return sum(ends[partition] - begin for partition, begin in begins.items())


def admit(begins: Offsets, ends: Offsets, rows_max: int | None) -> dict[TopicPartition, int]:
    """Where the next batch ends in each partition, given what is there and how much may be read."""
    if rows_max is None or available_rows(begins, ends) <= rows_max:
        return dict(ends)
    waiting = [partition for partition in sorted(begins) if ends[partition] > begins[partition]]
    if len(waiting) > rows_max:
        waiting = _next_in_turn(waiting, begins, rows_max)
    counts = shares([ends[partition] - begins[partition] for partition in waiting], rows_max)
    admitted = dict(begins)
    for partition, count in zip(waiting, counts, strict=True):
        admitted[partition] += count
    return admitted


def _next_in_turn(
    waiting: list[TopicPartition], begins: Offsets, count: int
) -> list[TopicPartition]:
    """So many of those that wait. The sum of all offsets moves on with every batch, so that it is
    each one's turn some time, without anything to remember."""
    first = sum(begins.values()) % len(waiting)
    return (waiting[first:] + waiting[:first])[:count]
