"""The ring assignor: consistent hashing with virtual nodes, and a bound on what one member gets.

Every member has many points on a ring; a partition stands somewhere on it and goes to the next
member clockwise that subscribes and has room (Mirrokni, Thorup, Zadimoghaddam: consistent hashing
with bounded loads, with the bound as tight as it gets). Not sticky: what was before does not count.
The invariants: the same members and topics give the same assignment, whatever happened in between,
so a member that goes and comes back finds what it had; and of members with the same topics none has
two partitions more than another.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Final

from penstock.coordination.group.assignment import (
    Assignment,
    MemberSubscription,
    Partition,
    collect,
)
from penstock.model.ids import TopicId
from penstock.model.limits import VIRTUAL_NODES_PER_MEMBER

_RING: Final = 2**64
_POINT_BYTES: Final = 8
_DIGEST_BYTES: Final = 64


def assign_ring(
    members: Mapping[str, MemberSubscription],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],  # noqa: ARG001 - an assignor's parameters
) -> dict[str, Assignment]:
    """See `assignors.Assignor`. The topics that the fewest read come first, as they have the least
    choice; those with the same readers share one ring."""
    readers_of: dict[TopicId, list[str]] = {}
    for member in sorted(members):
        for topic in members[member].topics:
            readers_of.setdefault(topic, []).append(member)
    topics_of: dict[tuple[str, ...], list[TopicId]] = {}
    for topic, readers in readers_of.items():
        topics_of.setdefault(tuple(readers), []).append(topic)
    given: dict[str, list[Partition]] = {member: [] for member in members}
    for together in sorted(topics_of, key=lambda together: (len(together), together)):
        names = {reader: members[reader].instance_id or reader for reader in together}
        partitions = [
            (topic, number)
            for topic in sorted(topics_of[together])
            for number in range(topics[topic])
        ]
        _Ring(names, given).hand_out(partitions)
    return {member: collect(partitions) for member, partitions in given.items()}


class _Ring:
    """The points of some members, and who of them still has room. Who is full stays full."""

    def __init__(self, names: Mapping[str, str], given: dict[str, list[Partition]]) -> None:
        """names: by which each member is known on the ring. A static member's outlives restarts."""
        points = sorted(
            (position, member) for member, name in names.items() for position in _points(name)
        )
        self._positions = [position for position, _ in points]
        self._members = [member for _, member in points]
        self._given = given
        self._loads = [len(given[member]) for member in names]
        self._share = self._extra = 0
        # For each point one behind it, up to which everybody is full.
        self._next = [*range(1, len(points)), 0]

    def hand_out(self, partitions: Sequence[Partition]) -> None:
        """Each partition to the nearest member with room; those that stand nearest come first."""
        self._share, self._extra = _level(self._loads, len(partitions))
        places = {partition: _place(partition) for partition in partitions}
        queue = []
        for partition, place in places.items():
            point = bisect_left(self._positions, place) % len(self._positions)
            queue.append(((self._positions[point] - place) % _RING, partition, point))
        heapify(queue)
        while queue:
            _, partition, point = heappop(queue)
            member = self._members[point]
            if self._has_room(member):
                self._extra -= len(self._given[member]) == self._share
                self._given[member].append(partition)
            else:
                point = self._room_after(point)
                distance = (self._positions[point] - places[partition]) % _RING
                heappush(queue, (distance, partition, point))

    def _has_room(self, member: str) -> bool:
        load = len(self._given[member])
        return load < self._share or (load == self._share and self._extra > 0)

    def _room_after(self, point: int) -> int:
        passed = []
        while not self._has_room(self._members[point]):
            passed.append(point)
            point = self._next[point]
        for each in passed:
            self._next[each] = point
        return point


def _level(loads: Sequence[int], count: int) -> tuple[int, int]:
    """Up to which load the members fill alike when so many more come, and how many get one more."""
    free, share = count, 0
    for filled, load in enumerate(sorted(loads)):
        # To raise the lighter ones to this one's load.
        if (load - share) * filled > free:
            break
        free -= (load - share) * filled
        share = load
    else:
        filled = len(loads)
    raised, extra = divmod(free, filled)
    return share + raised, extra


def _points(name: str) -> Iterator[int]:
    """Not CRC32, which is linear: names that differ in a digit would have points at distances that
    repeat all around the ring."""
    for number in range(VIRTUAL_NODES_PER_MEMBER * _POINT_BYTES // _DIGEST_BYTES):
        digest = blake2b(f"{name} {number}".encode(), digest_size=_DIGEST_BYTES).digest()
        for start in range(0, _DIGEST_BYTES, _POINT_BYTES):
            yield int.from_bytes(digest[start : start + _POINT_BYTES])


def _place(partition: Partition) -> int:
    text = f"{partition[0]} {partition[1]}"
    return int.from_bytes(blake2b(text.encode(), digest_size=_POINT_BYTES).digest())
