"""Whether a handler fails whatever it is given, as when a database behind it is gone.

Not how a message is tried again: that is `serving`'s and the group's affair. A message that fails
costs an attempt, and after the last it is a dead letter; where all fail, that would bury a topic
within seconds. So after FAILURES_MAX failures in a row, of MESSAGES_MIN messages or more, handlers
are tried with pauses that grow, and a failure counts no attempt. The invariant: one success ends
that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from penstock.client.reading.ledger import Coordinates

logger = logging.getLogger(__name__)

# So many are no chance; and fewer than a handful of bad messages are given up after their attempts,
# also where there are no good ones beside them.
FAILURES_MAX: Final = 20
MESSAGES_MIN: Final = 5
_FIRST_S: Final = 1.0


class Failing:
    """What the handlers of one `serve` come to."""

    def __init__(self, longest_s: float) -> None:
        """longest_s: the longest pause; 0: there are none."""
        self._longest_s = longest_s
        # Since one was handled: how often, and of which messages, up to MESSAGES_MIN.
        self._failures = 0
        self._messages: set[Coordinates] = set()
        self._handled = asyncio.Event()
        self._grows_at_s = 0.0
        self.pause_s = 0.0
        """How long to wait before a message is tried; 0: messages are handled."""

    def handled(self) -> None:
        """A message was."""
        if self.pause_s > 0:
            logger.warning("Messages are handled again.")
        self._failures = 0
        self._messages.clear()
        self.pause_s = 0.0
        self._handled.set()

    def failed(self, place: Coordinates, reason: str, now_s: float) -> bool:
        """A message has failed. Whether it is to count as an attempt."""
        if self.pause_s > 0:
            # Those that were at work together are one try.
            if now_s >= self._grows_at_s:
                self._pause(min(self.pause_s * 2, self._longest_s), now_s)
            return False
        self._failures += 1
        if len(self._messages) < MESSAGES_MIN:
            self._messages.add(place)
        is_chance = self._failures < FAILURES_MAX or len(self._messages) < MESSAGES_MIN
        if not is_chance and self._longest_s > 0:
            self._handled.clear()
            self._pause(min(_FIRST_S, self._longest_s), now_s)
            logger.error(
                "The handler failed %d times one after another, whatever it was given: it is tried "
                "again after %g s, then less and less often, and no attempts are counted until it "
                "succeeds. The last failure: %s",
                self._failures,
                self.pause_s,
                reason,
            )
        return True

    async def wait(self) -> None:
        """Returns when a message may be tried: after the pause, or when one was handled."""
        if self.pause_s > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.pause_s):
                    await self._handled.wait()

    def _pause(self, pause_s: float, now_s: float) -> None:
        self.pause_s = pause_s
        self._grows_at_s = now_s + pause_s
