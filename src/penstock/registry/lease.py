"""How long a broker may hold itself for the controller.

A registry counts a broker's session from when a sign of life reached it, which is not before it was
sent: so a lease that begins with the sending and is shorter than the session ends before another
broker can be controller. The invariant: it is measured on this broker's own clock, and what was
sent before the lease was ended does not bring it back, whichever thread ended it.
"""

from __future__ import annotations

import threading
from typing import Final, NamedTuple

from penstock.net.clock import Clock

# Of the session's time; the rest is for clocks that run at different speeds.
_SHARE: Final = 2 / 3


class Attempt(NamedTuple):
    """Something is about to be sent that may extend the lease."""

    sent_at: float
    endings: int


class Lease:
    """One broker's, for its event loop and the threads of a client of ZooKeeper."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._ends_at = 0.0
        self._endings = 0

    @property
    def is_held(self) -> bool:
        return self._clock.monotonic() < self._ends_at

    def begin(self) -> Attempt:
        with self._lock:
            return Attempt(self._clock.monotonic(), self._endings)

    def extend(self, attempt: Attempt, session_timeout_ms: int) -> None:
        """Unless it was ended since the attempt began: the answer may be older than that."""
        with self._lock:
            if attempt.endings == self._endings:
                ends_at = attempt.sent_at + session_timeout_ms / 1000 * _SHARE
                self._ends_at = max(self._ends_at, ends_at)

    def end(self) -> None:
        with self._lock:
            self._endings += 1
            self._ends_at = 0.0
