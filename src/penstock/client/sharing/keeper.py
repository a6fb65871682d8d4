"""What a consumer does about leases whose time passes.

Messages that wait for a reader that is busy are given back at half of their lease, for others who
are not: no attempt is counted. Those that the reader works on are kept by extending, where that is
wanted. Not what becomes of messages otherwise. The invariant: a process that stands still extends
nothing, so its messages go to others when their leases are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from penstock.client.reading.ledger import Coordinates
from penstock.client.sharing.buffer import Hold, LeaseBuffer
from penstock.client.sharing.settler import EXTEND, RELEASE, Outcome

# Of a lease: how often it is looked, and what may have passed of one before something is done.
_LOOK_PART: Final = 1 / 16
_KEEP_PART: Final = 7 / 16

Settle = Callable[[tuple[str, int], int, Outcome], None]


class LeaseKeeper:
    """Of one consumer."""

    def __init__(
        self,
        buffer: LeaseBuffer,
        held: Mapping[Coordinates, Hold],
        settle: Settle,
        *,
        extends: bool,
    ) -> None:
        """held: what the reader has taken and not settled. extends: also keep those."""
        self._buffer = buffer
        self._held = held
        self._settle = settle
        self._extends = extends
        self._loop = asyncio.get_running_loop()
        # When a held message was extended last.
        self._extended_at_s: dict[Coordinates, float] = {}

    async def run(self) -> None:
        """Look at leases from time to time; until it is cancelled."""
        await self._buffer.has_leased.wait()
        while True:
            # All leases of a group are of one length.
            await asyncio.sleep(self._buffer.lease_s * _LOOK_PART)
            self.look()

    def look(self) -> None:
        """Do what is to be done now."""
        now_s = self._loop.time()
        self.give_back(lambda hold: _is_old(hold.leased_at_s, hold, now_s))
        if self._extends:
            self._extend(now_s)

    def give_back(self, is_unwanted: Callable[[Hold], bool]) -> None:
        """Let others have the messages of those holds that wait for the reader."""
        release = Outcome(RELEASE)
        for message in self._buffer.withdraw(is_unwanted):
            self._settle((message.topic, message.partition), message.offset, release)

    def _extend(self, now_s: float) -> None:
        before = self._extended_at_s
        # Only those that are held still: it is bounded as they are.
        extended = self._extended_at_s = {}
        for place, hold in self._held.items():
            # Later leases of the same message begin anew.
            since_s = max(before.get(place, 0.0), hold.leased_at_s)
            if _is_old(since_s, hold, now_s):
                self._settle(hold.partition, place[2], Outcome(EXTEND))
                since_s = now_s
            extended[place] = since_s


def _is_old(since_s: float, hold: Hold, now_s: float) -> bool:
    return now_s - since_s >= hold.lease_s * _KEEP_PART
