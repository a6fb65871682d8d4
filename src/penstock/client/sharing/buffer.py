"""Messages that were leased and wait for the reader: how many may, which do, which do no longer.

Not how they come: `lane` and `push_lane` bring them. The invariant: what waits is kept from
others, so nothing is asked for beyond `prefetch`, and nothing handed over when its lease is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from penstock.client.sharing.lane import Hold
from penstock.model.errors import PenstockError
from penstock.records import Message

logger = logging.getLogger(__name__)


class LeaseBuffer:
    """Of one consumer."""

    def __init__(self, prefetch: int, source: Any, fail: Callable[[PenstockError], None]) -> None:
        """source: whom messages tell what became of them. fail: is told why no more can come."""
        self.source = source
        self.fail = fail
        self.lane_count = 0
        """Among how many `prefetch` is divided."""
        self.lease_s = 0.0
        """How long leases are, when one has come."""
        self.has_leased = asyncio.Event()
        self.has_messages = asyncio.Event()
        self.has_room = asyncio.Event()
        self._prefetch = prefetch
        self._loop = asyncio.get_running_loop()
        self._ready: deque[tuple[Hold, Message]] = deque()

    def __len__(self) -> int:
        return len(self._ready)

    def credit(self) -> int:
        """How many messages of one lane may wait. When lanes are added, those that have credit
        already keep it until they are opened anew."""
        return max(self._prefetch // max(self.lane_count, 1), 1)

    def room(self) -> int:
        """How many one lane may ask for now: all of them ask at the same time."""
        return min(self._prefetch - len(self._ready), self.credit())

    def add(self, hold: Hold, messages: list[Message]) -> None:
        self.lease_s = hold.lease_s
        self.has_leased.set()
        self._ready.extend((hold, message) for message in messages)
        self.has_messages.set()

    def take(self) -> tuple[Hold, Message] | None:
        """The next one, if there is one; from now on it is the reader's."""
        now_s = self._loop.time()
        while self._ready:
            hold, message = self._ready.popleft()
            hold.left()
            self.has_room.set()
            if now_s < hold.expires_at_s:
                return hold, message
            logger.warning("A lease ran out before its message was taken: lower prefetch.")
        return None

    def drop(self, is_gone: Callable[[Hold], bool]) -> list[Message]:
        """Hand over nothing of the holds of which this is true: what waited of them."""
        dropped = [one for one in self._ready if is_gone(one[0])]
        if dropped:
            self._ready = deque(one for one in self._ready if not is_gone(one[0]))
            for hold, _ in dropped:
                hold.left()
            self.has_room.set()
        return [message for _, message in dropped]

    async def wait(self) -> None:
        """Until there may be one, or a reason why not."""
        self.has_messages.clear()
        await self.has_messages.wait()
