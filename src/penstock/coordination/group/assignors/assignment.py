"""Sets of partitions by topic, as members own them, and the few operations on them.

Not who owns what. The invariant: in an `Assignment` no topic is without partitions, and the
partitions of a topic rise, so that equal assignments compare equal and are written alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.model.ids import TopicId

Assignment = Mapping[TopicId, tuple[int, ...]]
Partition = tuple[TopicId, int]

NOTHING: Final[Assignment] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSubscription:
    """What an assignor knows of a member."""

    instance_id: str | None
    """Who a static member is across restarts."""
    topics: frozenset[TopicId]
    """Topics that exist."""


def collect(partitions: Iterable[Partition]) -> Assignment:
    """The partitions as an assignment."""
    by_topic: dict[TopicId, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    return {topic: tuple(sorted(by_topic[topic])) for topic in sorted(by_topic)}


def partitions_of(assignment: Assignment) -> Iterator[Partition]:
    for topic, partitions in assignment.items():
        for partition in partitions:
            yield topic, partition


def count(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def are_disjoint(assignments: Collection[Assignment]) -> bool:
    """Whether no partition is in two of them."""
    together = {partition for each in assignments for partition in partitions_of(each)}
    return len(together) == sum(map(count, assignments))


def intersect(one: Assignment, other: Assignment) -> Assignment:
    return _keep(one, other, common=True)


def subtract(one: Assignment, other: Assignment) -> Assignment:
    return _keep(one, other, common=False)


def unite(one: Assignment, other: Assignment) -> Assignment:
    """Both together, which have nothing in common."""
    if not other:
        return one
    return collect((*partitions_of(one), *partitions_of(other)))


def _keep(one: Assignment, other: Assignment, *, common: bool) -> Assignment:
    if one == other:
        return one if common else NOTHING
    kept: dict[TopicId, tuple[int, ...]] = {}
    for topic, partitions in one.items():
        others = frozenset(other.get(topic, ()))
        left = tuple(partition for partition in partitions if (partition in others) is common)
        if left:
            kept[topic] = left
    return kept
