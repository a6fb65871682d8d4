"""Up to where a leader may lease without a write: how far each write raises that.

The ceiling is durable before anything at or above it is leased. Not the durable ceiling itself,
which the machine has. The invariant: the next one is never lower than the durable one, nor behind
the window; it covers what members asked for, and as many more as they take while a write is under
way, so that they need not wait for the one after.
"""

from __future__ import annotations

from typing import Final

# By how much it is ahead of what is leased, at least: so a group that gets a message now and then
# need not wait for a write each time. It costs that so many wait after a leader's loss.
_HEADROOM_MIN: Final = 100
# And at most, as a part of the window: the rest is free for a new leader to go on with.
_WINDOW_PART: Final = 4


class Ceiling:
    """How many messages are leased, and where members had to stop."""

    def __init__(self, window_max: int) -> None:
        self._window_max = window_max
        self._headroom_max = max(1, window_max // _WINDOW_PART)
        self._frontier = 0  # Behind the last message this leader leased; 0 while there is none.
        self._demand = 0
        # Since the last snapshot, and between the two before.
        self._leased_since = 0
        self._leased_before = 0
        self._find_headroom()

    def leased(self, end: int, messages: int) -> None:
        self._frontier = max(self._frontier, end)
        self._leased_since += messages
        self._find_headroom()

    def asked(self, end: int) -> None:
        """A member would have been given messages up to `end`, had the ceiling been there."""
        self._demand = max(self._demand, end)

    def next(self, durable: int, start: int) -> int:
        """The ceiling to write with the state of a window that begins at `start`."""
        reached = max(self._demand, self._frontier)
        ahead = reached + self._headroom if reached else 0
        return max(durable, start, min(ahead, start + self._window_max))

    def wanted(self, durable: int, start: int) -> int | None:
        """The ceiling, if it is worth a write of its own."""
        is_near = self._frontier > 0 and self._frontier + self._headroom // 2 > durable
        if self._demand <= durable and not is_near:
            return None
        ceiling = self.next(durable, start)
        return ceiling if ceiling > durable else None

    def written(self) -> None:
        """A state is on its way: from here on it is counted anew."""
        self._leased_before, self._leased_since = self._leased_since, 0
        self._find_headroom()

    def _find_headroom(self) -> None:
        pace = 2 * max(self._leased_since, self._leased_before)
        self._headroom = min(max(pace, _HEADROOM_MIN), self._headroom_max)
