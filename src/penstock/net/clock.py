"""The clock as a parameter: whoever needs the time is given a Clock.

Not here: timers, which belong to the event loop. Invariant: nothing above this package reads the
time in any other way, so a test decides what time it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol


class Clock(Protocol):
    """What time it is, for people and for measuring."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 in UTC; may jump when somebody sets the clock."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The clock of the machine."""

    __slots__ = ()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)


def steady_ms(clock: Clock) -> Callable[[], int]:
    """Wall time that does not jump when somebody sets the clock: leases and sessions depend on
    it."""
    zero_ms = clock.now_ms() - int(clock.monotonic() * 1000)
    return lambda: zero_ms + int(clock.monotonic() * 1000)
