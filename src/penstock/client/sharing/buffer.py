"""Messages that were leased and wait for the reader: which do, and which do no longer.

Not how they come: `lease_feed` brings them. The invariant: what waits is kept from others, so
nothing is asked for beyond `prefetch`, and nothing handed over when its lease is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from penstock.client.reading.buffer import Buffer, Fed
from penstock.client.sharing.holds import Hold
from penstock.records import Message

logger = logging.getLogger(__name__)

Leased = tuple[Hold, Message]


class LeaseBuffer(Buffer[Leased]):
    """Of one consumer."""

    def __init__(self, prefetch: int, feeds: Mapping[tuple[str, int], Fed]) -> None:
        super().__init__(prefetch, feeds)
        self.lease_s = 0.0
        """How long leases are, when one has come."""
        self.has_leased = asyncio.Event()

    def add_leased(self, hold: Hold, messages: Sequence[Message]) -> None:
        """These wait for the reader from now on."""
        self.lease_s = hold.lease_s
        self.has_leased.set()
        self.add([(hold, message) for message in messages])

    def take_leased(self) -> Leased | None:
        """The next one whose lease still runs, if there is one."""
        now_s = self._loop.time()
        while (taken := self.take()) is not None:
            hold = taken[0]
            hold.left()
            if now_s < hold.expires_at_s:
                return taken
            logger.warning("A lease ran out before its message was taken: lower prefetch.")
        return None

    def withdraw(self, is_gone: Callable[[Hold], bool]) -> list[Message]:
        """Hand over nothing of the holds of which this is true: what waited of them."""
        withdrawn = self.drop(lambda leased: is_gone(leased[0]))
        for hold, _ in withdrawn:
            hold.left()
        return [message for _, message in withdrawn]
