"""When something of a window changes by itself: ends of leases, of backoffs, of messages.

Not what changes: an entry says that there may be something to do in a range of offsets, and whoever
takes it looks. The invariant: there is an entry for everything that has a time, so that nothing is
missed; one that became worthless costs a look, and there are no more than four times as many as
were needed when they were last counted, however often a member extends its leases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

Timer = tuple[int, int, int]
"""A time, the first offset, the one behind the last."""

_ENTRIES_SPARED: Final = 64
_NEVER_MS: Final = sys.maxsize


class Timers:
    """A heap of times, each for a range of offsets."""

    def __init__(
        self, needed: Callable[[], Iterable[Timer]], is_of_worth: Callable[[Timer], bool]
    ) -> None:
        """needed: all that there must be now. is_of_worth: whether one of them is."""
        self._needed = needed
        self._is_of_worth = is_of_worth
        self._heap: list[Timer] = []
        self._entries_max = _ENTRIES_SPARED
        self.soonest_ms = _NEVER_MS
        """Nothing is due before."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when_ms: int, first: int, end: int) -> None:
        """when_ms: 0 where nothing changes by itself."""
        if when_ms <= 0:
            return
        heap = self._heap
        heappush(heap, (when_ms, first, end))
        if len(heap) > self._entries_max:
            heap[:] = self._needed()
            heapify(heap)
            self._entries_max = _ENTRIES_SPARED + 4 * len(heap)
        self.soonest_ms = heap[0][0]

    def pop_due(self, now_ms: int) -> Timer | None:
        """One whose time has come."""
        if now_ms < self.soonest_ms:
            return None
        timer = heappop(self._heap)
        self.soonest_ms = self._heap[0][0] if self._heap else _NEVER_MS
        return timer

    def next_ms(self) -> int | None:
        """When the next one is due."""
        heap = self._heap
        while heap and not self._is_of_worth(heap[0]):
            heappop(heap)
        self.soonest_ms = heap[0][0] if heap else _NEVER_MS
        return heap[0][0] if heap else None

    def check(self, needed: Iterable[Timer]) -> None:
        """Whether there is an entry for each of these. For tests."""
        for when_ms, first, end in needed:
            found = [timer for timer in self._heap if timer[0] == when_ms]
            covered = {offset for _, low, high in found for offset in range(low, high)}
            assert covered.issuperset(range(first, end)), (when_ms, first, end)
