"""Which partitions each member of a shared group asks for messages: Kafka's simple assignor.

Not who gets which message: the partition's leader says that. Members with the same topics share
their partitions: one member each where there are enough partitions, as many as it takes to give
everybody something where there are not (KIP-932). The invariants: every partition has as many
members as any other of the same subscribers, no two of those differ by more than one partition,
and what a member had it keeps, as far as that allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from penstock.coordination.group.assignors.assignment import NOTHING, Assignment, Partition, collect
from penstock.model.ids import TopicId

SIMPLE: Final = "simple"


def assign_shares(
    members: Mapping[str, frozenset[TopicId]],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """members: the topics of each that exist; topics: how many partitions they have; previous:
    what the members were told before."""
    subscribers: dict[TopicId, list[str]] = {}
    for member in sorted(members):
        for topic in members[member]:
            subscribers.setdefault(topic, []).append(member)
    alike: dict[tuple[str, ...], list[TopicId]] = {}
    for topic in sorted(subscribers):
        alike.setdefault(tuple(subscribers[topic]), []).append(topic)
    given: dict[str, set[Partition]] = {member: set() for member in members}
    for sharers, shared_topics in alike.items():
        partitions = [
            (topic, partition) for topic in shared_topics for partition in range(topics[topic])
        ]
        if partitions:
            _Sharing(sharers, partitions, given).spread(previous)
    return {member: collect(partitions) for member, partitions in given.items()}


class _Sharing:
    """Some members, and the partitions that these and no others read."""

    def __init__(
        self,
        members: tuple[str, ...],
        partitions: list[Partition],
        given: dict[str, set[Partition]],
    ) -> None:
        self._members = members
        self._given = given
        self._sharers: dict[Partition, set[str]] = {partition: set() for partition in partitions}
        # As many for each partition, so many that nobody is left out.
        self._sharers_max = -(-len(members) // len(partitions))
        self._left: dict[str, int] = {}

    def spread(self, previous: Mapping[str, Assignment]) -> None:
        had = {member: self._had(previous.get(member, NOTHING)) for member in self._members}
        places = len(self._sharers) * self._sharers_max
        share, extra = divmod(places, len(self._members))
        # One more for those who had more, then for those who have the least of other topics.
        order = sorted(
            self._members, key=lambda one: (-min(len(had[one]), share + 1), len(self._given[one]))
        )
        for rank, member in enumerate(order):
            self._left[member] = share + (rank < extra)
        for member in order:
            for partition in had[member]:
                if self._left[member] and len(self._sharers[partition]) < self._sharers_max:
                    self._give(partition, member)
        self._fill()
        assert not any(self._left.values()), f"left over: {self._left}"

    def _had(self, assignment: Assignment) -> list[Partition]:
        return [
            (topic, number)
            for topic, numbers in assignment.items()
            for number in numbers
            if (topic, number) in self._sharers
        ]

    def _fill(self) -> None:
        """Give every partition the sharers that it lacks."""
        # Who lacks most comes first; a queue, so that they take turns.
        waiting = deque(sorted(filter(self._left.get, self._left), key=lambda m: -self._left[m]))
        for partition, sharers in self._sharers.items():
            while len(sharers) < self._sharers_max:
                member = next((one for one in waiting if one not in sharers), None)
                if member is None:
                    member = waiting[0]
                    self._make_room(partition, member)
                else:
                    self._give(partition, member)
                waiting.remove(member)
                if self._left[member]:
                    waiting.append(member)

    def _make_room(self, partition: Partition, member: str) -> None:
        """Everybody who may have more shares the partition already: let the member have another
        one. If that has all its sharers, one of them is not here, and comes here instead."""
        other = next(one for one, sharers in self._sharers.items() if member not in sharers)
        sharers = self._sharers[other]
        if len(sharers) == self._sharers_max:
            leaver = min(sharers - self._sharers[partition])
            sharers.remove(leaver)
            self._given[leaver].remove(other)
            self._left[leaver] += 1
            self._give(partition, leaver)
        self._give(other, member)

    def _give(self, partition: Partition, member: str) -> None:
        self._sharers[partition].add(member)
        self._given[member].add(partition)
        self._left[member] -= 1
