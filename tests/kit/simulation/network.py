"""The network between brokers, and between clients and brokers: late, lossy, cut, damaged.

A link goes one way, from one endpoint to another; brokers are endpoints by their ids, clients by
numbers above them. Not what is said, and not when faults come (`faults`). The invariant: what a
client says arrives in order and once, or not at all, as on a connection; between brokers a parcel
may also be doubled, overtaken or damaged where its checksums protect it, which is more than a
connection does and no more than `replication.replica.transport` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from penstock.model.errors import InvalidBatch
from penstock.records.header import read_header
from tests.kit.simulation.timeline import Timeline

GOOD_DELAY_MS_MAX: Final = 10
# Where the checksum of a batch begins to protect it.
CHECKED_FROM: Final = 21
_LATE_FACTOR: Final = 10

Deliver = Callable[[bytes, bytes], None]


class Network:
    """Of one run."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._random = timeline.random
        # From, to.
        self.cuts: set[tuple[int, int]] = set()
        self.parcels = 0
        # When the last thing on a link arrives.
        self._arrivals: dict[tuple[int, int], int] = {}
        self.mend()

    def mend(self) -> None:
        """Nothing is cut, and nothing goes wrong."""
        self.cuts.clear()
        self.make_better()

    def make_better(self) -> None:
        self.loss = self.doubling = self.damage = self.overtaking = 0.0
        self.delay_ms_max = GOOD_DELAY_MS_MAX

    # --- who hears whom --------------------------------------------------------------------------

    def is_cut(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self.cuts

    def cut_one_way(self, sender: int, receiver: int) -> None:
        self.cuts.add((sender, receiver))

    def cut_between(self, some: Iterable[int], others: Iterable[int]) -> None:
        others = list(others)
        for one in some:
            for other in others:
                self.cuts |= {(one, other), (other, one)}

    # --- carrying --------------------------------------------------------------------------------

    def carry(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        """On a connection: in order, once; or it is lost with the connection."""
        if self.is_cut(sender, receiver) or self._random.random() < self.loss:
            return
        delay_ms = self._random.randint(1, self.delay_ms_max)
        self._arrive_in_order(sender, receiver, delay_ms, deliver)

    def carry_parcel(
        self, sender: int, receiver: int, envelope: bytes, payload: bytes, deliver: Deliver
    ) -> None:
        random = self._random
        if self.is_cut(sender, receiver) or random.random() < self.loss:
            return
        self.parcels += 1
        if len(payload) > CHECKED_FROM and random.random() < self.damage:
            payload = self._damaged(payload)
        for _ in range(2 if random.random() < self.doubling else 1):
            delay_ms = random.randint(1, self.delay_ms_max)
            if random.random() < self.overtaking:
                late_ms = delay_ms * _LATE_FACTOR
                self._arrive(sender, receiver, late_ms, lambda: deliver(envelope, payload))
            else:
                self._arrive_in_order(
                    sender, receiver, delay_ms, lambda: deliver(envelope, payload)
                )

    def _arrive_in_order(
        self, sender: int, receiver: int, delay_ms: int, deliver: Callable[[], None]
    ) -> None:
        link = (sender, receiver)
        arrival_ms = max(self._timeline.now_ms + delay_ms, self._arrivals.get(link, 0))
        self._arrivals[link] = arrival_ms
        self._arrive(sender, receiver, arrival_ms - self._timeline.now_ms, deliver)

    def _arrive(
        self, sender: int, receiver: int, delay_ms: int, deliver: Callable[[], None]
    ) -> None:
        def arrive() -> None:
            if not self.is_cut(sender, receiver):
                deliver()

        self._timeline.after(delay_ms, arrive)

    def _damaged(self, payload: bytes) -> bytes:
        """With another bit in its first batch, where the checksum protects it. What begins with
        something else, as what goes with a new start does, has none, and stays as it is."""
        try:
            end = read_header(payload).length
        except InvalidBatch:
            return payload
        position = self._random.randrange(CHECKED_FROM, end)
        damaged = bytearray(payload)
        damaged[position] ^= 1 << self._random.randrange(8)
        return bytes(damaged)
