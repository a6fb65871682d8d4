"""Consistent hashing: in which order brokers are preferred for a key.

Every broker has many points on a ring; a key stands somewhere on it and meets brokers clockwise.
The invariant: a broker that joins or leaves changes nothing in the order of the others, so a
placement by this order moves only what has to move. Not a placement: load and hosts come first.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from hashlib import blake2b

from penstock.model.ids import BrokerId
from penstock.model.limits import VIRTUAL_NODES_PER_BROKER


class Ring:
    """The same brokers make the same ring, on every machine."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        points = sorted(
            (_position(f"broker {broker} point {number}"), broker)
            for broker in set(brokers)
            for number in range(VIRTUAL_NODES_PER_BROKER)
        )
        self._positions = [position for position, _ in points]
        self._brokers = [broker for _, broker in points]
        self._count = len(points) // VIRTUAL_NODES_PER_BROKER

    def order(self, key: str) -> tuple[BrokerId, ...]:
        """All brokers, the most preferred first."""
        start = bisect_left(self._positions, _position(key))
        met: dict[BrokerId, None] = {}
        for step in range(len(self._brokers)):
            met[self._brokers[(start + step) % len(self._brokers)]] = None
            if len(met) == self._count:
                break
        return tuple(met)


def _position(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
