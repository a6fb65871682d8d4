"""When something happened here, by a client's own clock.

A client that stood still finds deliveries in its buffers that are older than they seem. It says
what its clock shows whenever it answers, and is told by that clock when messages were leased to it.
The invariant: that is never later than it was by more than clocks drift apart.
"""

from __future__ import annotations

from math import floor
from typing import Final

# Clocks do not run at quite the same pace: else a client that was idle for days would be told of
# leases that seem to be over.
_DRIFT: Final = 1 / 4_000
# What no clock shows is not taken: it would not fit where it is sent.
_SAID_MS_MAX: Final = 2**53


class ClientClock:
    """Of one client."""

    __slots__ = ("_heard_s", "_said_ms")

    def __init__(self) -> None:
        self._said_ms = 0
        self._heard_s = 0.0

    def said(self, said_ms: int, now_s: float) -> None:
        """The client says what its clock shows; heard now, or before, by the broker's clock."""
        if 0 < said_ms < _SAID_MS_MAX:
            self._said_ms, self._heard_s = said_ms, now_s

    def at_ms(self, at_s: float) -> int:
        """What it showed then, or before, by the broker's clock; 0: not known."""
        if not self._said_ms:
            return 0
        since_s = at_s - self._heard_s
        return max(self._said_ms + floor((since_s + max(since_s, 0.0) * _DRIFT) * 1000), 1)
