"""The uniform assignor: as even as it gets, with as few moves as that takes.

Not when it runs. Where all members subscribe to the same topics, no two differ by more than one
partition, and no assignment as even moves fewer. Where they do not, no single move makes it more
even: a member that owns a partition has at most one more than any other subscriber of its topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

from penstock.coordination.group.assignors.assignment import (
    NOTHING,
    Assignment,
    MemberSubscription,
    Partition,
    collect,
    partitions_of,
)
from penstock.model.ids import TopicId


def assign_uniform(
    members: Mapping[str, MemberSubscription],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """See `assignors.Assignor`."""
    if not members:
        return {}
    subscriptions = {subscription.topics for subscription in members.values()}
    wanted = sorted(frozenset().union(*subscriptions))
    free = {(topic, partition): None for topic in wanted for partition in range(topics[topic])}
    kept = {
        member: _take_again(members[member], previous.get(member, NOTHING), free)
        for member in sorted(members)
    }
    if len(subscriptions) == 1:
        _level(kept, free)
    else:
        _Scales(members, kept).level(free)
    return {
        member: _assignment(partitions, previous.get(member, NOTHING))
        for member, partitions in kept.items()
    }


def _take_again(
    subscription: MemberSubscription, previous: Assignment, free: dict[Partition, None]
) -> list[Partition]:
    """What the member had and may still have, taken out of `free`."""
    kept = []
    for partition in partitions_of(previous):
        if partition in free and partition[0] in subscription.topics:
            del free[partition]
            kept.append(partition)
    return kept


def _level(kept: dict[str, list[Partition]], free: dict[Partition, None]) -> None:
    """Equal subscriptions. The partition more that some must have is for those who have the most
    already: any other choice would move it."""
    total = len(free) + sum(map(len, kept.values()))
    share, extra = divmod(total, len(kept))
    quotas: dict[str, int] = {}
    loose = list(free)
    for place, member in enumerate(sorted(kept, key=lambda member: -len(kept[member]))):
        quota = quotas[member] = share + (place < extra)
        loose.extend(kept[member][quota:])
        del kept[member][quota:]
    supply = iter(loose)
    for member, partitions in kept.items():
        partitions.extend(islice(supply, quotas[member] - len(partitions)))


class _Scales:
    """Unequal subscriptions: loads, and for each topic its subscribers, the lightest first."""

    def __init__(
        self, members: Mapping[str, MemberSubscription], kept: dict[str, list[Partition]]
    ) -> None:
        self._topics = {member: members[member].topics for member in kept}
        self._kept = kept
        self._loads = {member: len(partitions) for member, partitions in kept.items()}
        self._subscribers: dict[TopicId, list[str]] = {}
        for member, topics in self._topics.items():
            for topic in topics:
                self._subscribers.setdefault(topic, []).append(member)
        self._lightest: dict[TopicId, list[tuple[int, str]]] = {}

    def level(self, free: Iterable[Partition]) -> None:
        self._hand_out(free)
        held: dict[str, dict[TopicId, list[Partition]]] = {}
        for member, partitions in self._kept.items():
            by_topic = held[member] = {}
            for partition in partitions:
                by_topic.setdefault(partition[0], []).append(partition)
        self._lightest = {
            topic: [(self._loads[member], member) for member in subscribers]
            for topic, subscribers in self._subscribers.items()
        }
        for heap in self._lightest.values():
            heapify(heap)
        # Every move lowers the sum of the squares of the loads, so it ends.
        moved = True
        while moved:
            moved = False
            for member in sorted(held, key=lambda member: -self._loads[member]):
                while self._relieve(member, held):
                    moved = True
        for member, by_topic in held.items():
            self._kept[member] = [one for partitions in by_topic.values() for one in partitions]

    def _hand_out(self, free: Iterable[Partition]) -> None:
        """Each partition to its lightest subscriber; the topics that fewest can take first."""
        by_topic: dict[TopicId, list[Partition]] = {}
        for partition in free:
            by_topic.setdefault(partition[0], []).append(partition)
        for topic in sorted(by_topic, key=lambda topic: len(self._subscribers[topic])):
            heap = [(self._loads[member], member) for member in self._subscribers[topic]]
            heapify(heap)
            for partition in by_topic[topic]:
                load, member = heap[0]
                self._kept[member].append(partition)
                heapreplace(heap, (load + 1, member))
            for load, member in heap:
                self._loads[member] = load

    def _relieve(self, member: str, held: dict[str, dict[TopicId, list[Partition]]]) -> bool:
        """Move one of the member's partitions to the lightest who may have it, if that is more
        even than before."""
        light, receiver, moved_topic = self._loads[member] - 1, "", None
        for topic in held[member]:
            load, subscriber = self._lightest_of(topic)
            if load < light:
                light, receiver, moved_topic = load, subscriber, topic
        if moved_topic is None:
            return False
        partitions = held[member][moved_topic]
        # The last one: those it had before stand first.
        held[receiver].setdefault(moved_topic, []).append(partitions.pop())
        if not partitions:
            del held[member][moved_topic]
        self._weigh(member, -1)
        self._weigh(receiver, +1)
        return True

    def _lightest_of(self, topic: TopicId) -> tuple[int, str]:
        heap = self._lightest[topic]
        while heap[0][0] != self._loads[heap[0][1]]:
            heappop(heap)  # the load of an earlier moment: the present one is in the heap too
        return heap[0]

    def _weigh(self, member: str, change: int) -> None:
        self._loads[member] += change
        for topic in self._topics[member]:
            heappush(self._lightest[topic], (self._loads[member], member))


def _assignment(partitions: list[Partition], previous: Assignment) -> Assignment:
    """The same object where nothing changed, as for most members of a large group."""
    return previous if partitions == list(partitions_of(previous)) else collect(partitions)
