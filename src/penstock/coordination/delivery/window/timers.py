"""When something of a window changes by itself: ends of leases, of backoffs, of messages.

Not what changes: an entry says that there may be something to do in a range of offsets, and whoever
takes it looks. The invariant: there is an entry for everything that has a time, so that nothing is
missed; one that became worthless costs a look, and there are no more than four times as many as
needed for long, however often a member extends its leases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

Timer = tuple[int, int, int]
"""A time, the first offset, the one behind the last."""

_ENTRIES_SPARED: Final = 64


class Timers:
    """A heap of times, each for a range of offsets."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, when_ms: int, first: int, end: int) -> None:
        heappush(self._heap, (when_ms, first, end))

    def pop_due(self, now_ms: int) -> Timer | None:
        """One whose time has come."""
        heap = self._heap
        return heappop(heap) if heap and heap[0][0] <= now_ms else None

    def next_ms(self, is_of_worth: Callable[[Timer], bool]) -> int | None:
        """When the next one is due."""
        heap = self._heap
        while heap and not is_of_worth(heap[0]):
            heappop(heap)
        return heap[0][0] if heap else None

    def is_overgrown(self, needed: int) -> bool:
        return len(self._heap) > _ENTRIES_SPARED + 4 * needed

    def rebuild(self, timers: Iterable[Timer]) -> None:
        self._heap = list(timers)
        heapify(self._heap)

    def check(self, needed: Iterable[Timer]) -> None:
        """Whether there is an entry for each of these. For tests."""
        for when_ms, first, end in needed:
            found = [timer for timer in self._heap if timer[0] == when_ms]
            covered = {offset for _, low, high in found for offset in range(low, high)}
            assert covered.issuperset(range(first, end)), (when_ms, first, end)
