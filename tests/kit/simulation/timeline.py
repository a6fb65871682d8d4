"""Virtual time: what is to happen, in order, and chance from one seed.

Not who makes it happen. The invariants: time never goes back; of two events at the same moment the
one that was planned first comes first; nothing in a run asks for the time or for chance elsewhere.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Final

from tests.kit.simulation.trace import Trace

# An ordinary day: so that timestamps are what a broker expects.
_EPOCH_MS: Final = 1_700_000_000_000
_STEP_MS: Final = 20


class Timeline:
    """Of one run."""

    def __init__(self, random: Random, trace: Trace) -> None:
        self.now_ms = 0
        self.random = random
        self.trace = trace
        self.events = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    @property
    def next_ms(self) -> int | None:
        """When the next event is due."""
        return self._queue[0][0] if self._queue else None

    def after(self, delay_ms: int, event: Callable[[], None]) -> None:
        assert delay_ms >= 0, delay_ms
        heapq.heappush(self._queue, (self.now_ms + delay_ms, next(self._order), event))

    def every(self, interval_ms: int, event: Callable[[], None]) -> None:
        """Again and again, from a moment by chance on."""

        def again() -> None:
            event()
            self.after(interval_ms, again)

        self.after(self.random.randrange(interval_ms), again)

    def step(self) -> None:
        """Whatever comes next."""
        self.now_ms, _, event = heapq.heappop(self._queue)
        self.events += 1
        event()

    def run_until(self, now_ms: int) -> None:
        queue = self._queue
        while queue and queue[0][0] <= now_ms:
            self.step()
        self.now_ms = now_ms

    def run_for(self, duration_ms: int) -> None:
        self.run_until(self.now_ms + duration_ms)

    def run_while(self, condition: Callable[[], bool], limit_ms: int) -> bool:
        """Whether it became false in time."""
        by_ms = self.now_ms + limit_ms
        while condition():
            if self.now_ms >= by_ms:
                return False
            self.run_for(_STEP_MS)
        return True

    def note(self, who: str, what: str) -> None:
        self.trace.note(self.now_ms, who, what)


class VirtualClock:
    """`net.clock.Clock` of one machine, whose wall clock is set by people."""

    def __init__(self, timeline: Timeline, skew_ms: int) -> None:
        self._timeline = timeline
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return _EPOCH_MS + self._skew_ms + self._timeline.now_ms

    def monotonic(self) -> float:
        return self._timeline.now_ms / 1000
