"""A network for parcels, as brokers send them, which may be damaged where a checksum tells.

Brokers are endpoints by their ids, clients by numbers above them. The invariant: what befalls a
parcel is more than a connection does to it, and no more than `replication.replica.transport`
allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.errors import InvalidBatch
from penstock.records.header import read_header
from tests.kit.simulation.network import Deliver, Network
from tests.kit.simulation.timeline import Timeline

# Where the checksum of a batch begins to protect it.
CHECKED_FROM: Final = 21


class Parcels(Network):
    """The network of one run."""

    def __init__(self, timeline: Timeline) -> None:
        super().__init__(timeline)
        # How many were sent.
        self.parcels = 0

    def carry_parcel(
        self,
        sender: int,
        receiver: int,
        envelope: bytes,
        payload: bytes,
        deliver: Callable[[bytes, bytes], None],
    ) -> None:
        def damaged() -> Deliver:
            changed = self._damaged(payload)
            return lambda: deliver(envelope, changed)

        self.parcels += 1
        has_checksum = len(payload) > CHECKED_FROM
        self.carry_loosely(
            sender,
            receiver,
            lambda: deliver(envelope, payload),
            damaged if has_checksum else None,
        )

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
