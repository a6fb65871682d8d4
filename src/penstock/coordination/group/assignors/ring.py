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

from penstock.coordination.group.assignors.assignment import (
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
# A point is one number, which sorts fast: its position, and behind it whose it is.
_RANK_BITS: Final = 32
_RANK_MASK: Final = 2**_RANK_BITS - 1


def assign_ring(
    members: Mapping[str, MemberSubscription],
    topics: Mapping[TopicId, int],
    previous: Mapping[str, Assignment],  # noqa: ARG001 - an assignor's parameters
) -> dict[str, Assignment]:
    """See `assignors.Assignor`. The topics that the fewest read come first, as they have the least
    choice; those with the same readers are handed out together."""
    order = sorted(members)
    topics_of: dict[tuple[int, ...], list[TopicId]] = {}
    for topic, readers in _readers(order, members).items():
        topics_of.setdefault(tuple(readers), []).append(topic)
    points_of = [
        [
            position << _RANK_BITS | rank
            for position in _points(members[member].instance_id or member)
        ]
        for rank, member in enumerate(order)
    ]
    everybody = sorted(point for points in points_of for point in points)
    given: list[list[Partition]] = [[] for _ in order]
    # By rank, which is by name.
    for together in sorted(topics_of, key=lambda together: (len(together), together)):
        partitions = [
            (topic, number)
            for topic in sorted(topics_of[together])
            for number in range(topics[topic])
        ]
        points = everybody
        if _is_far_between(len(partitions), len(together), len(order)):
            points = sorted(point for rank in together for point in points_of[rank])
        _Ring(points, together, given).hand_out(partitions)
    return {member: collect(given[rank]) for rank, member in enumerate(order)}


def _readers(
    order: Sequence[str], members: Mapping[str, MemberSubscription]
) -> dict[TopicId, list[int]]:
    readers_of: dict[TopicId, list[int]] = {}
    for rank, member in enumerate(order):
        for topic in members[member].topics:
            readers_of.setdefault(topic, []).append(rank)
    return readers_of


def _is_far_between(partition_count: int, reader_count: int, member_count: int) -> bool:
    """Whether it is less work to make a ring of the readers than to walk past all others on that
    of everybody: to the same readers. With many sets of topics, either alone would take seconds."""
    walked = partition_count * (member_count // reader_count - 1)
    return walked > reader_count * VIRTUAL_NODES_PER_MEMBER


class _Ring:
    """Points, and which of those whose they are read and still have room. Who is full stays so."""

    def __init__(
        self, points: Sequence[int], readers: Sequence[int], given: list[list[Partition]]
    ) -> None:
        """points: of the readers, by their ranks, and perhaps of others. given: by rank."""
        self._points = points
        self._readers = frozenset(readers)
        self._given = given
        self._share = self._extra = 0
        # For points that were walked past, one behind it, up to which nobody has room.
        self._next: dict[int, int] = {}

    def hand_out(self, partitions: Sequence[Partition]) -> None:
        """Each partition to the nearest member with room; those that stand nearest come first."""
        loads = [len(self._given[reader]) for reader in self._readers]
        self._share, self._extra = _level(loads, len(partitions))
        places = {partition: _place(partition) for partition in partitions}
        queue = []
        for partition, place in places.items():
            index = bisect_left(self._points, place << _RANK_BITS) % len(self._points)
            index = self._room_from(index)
            queue.append((self._distance(index, place), partition, index))
        heapify(queue)
        while queue:
            _, partition, index = heappop(queue)
            given = self._given[self._points[index] & _RANK_MASK]
            if self._has_room(index):
                self._extra -= len(given) == self._share
                given.append(partition)
            else:
                index = self._room_from(index)
                heappush(queue, (self._distance(index, places[partition]), partition, index))

    def _distance(self, index: int, place: int) -> int:
        return ((self._points[index] >> _RANK_BITS) - place) % _RING

    def _has_room(self, index: int) -> bool:
        rank = self._points[index] & _RANK_MASK
        if rank not in self._readers:
            return False
        load = len(self._given[rank])
        return load < self._share or (load == self._share and self._extra > 0)

    def _room_from(self, index: int) -> int:
        """The point of a reader with room that is at this one, or the first behind it."""
        passed = []
        while not self._has_room(index):
            passed.append(index)
            index = self._next.get(index, index + 1)
            if index == len(self._points):
                index = 0
        for each in passed:
            self._next[each] = index
        return index


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
