"""Which available run is handed out next: the highest priority, then the lowest offset.

Not the runs themselves: an entry says that one may begin there, and whoever takes it looks. The
invariant: every available run has an entry at its first offset, beneath the ceiling among those
that may be handed out, at or above it among those that may not yet. There may be more entries than
runs, but no more than twice as many for long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Final

# Before the entries that have become worthless are looked for.
_ENTRIES_SPARED: Final = 64

IsAvailable = Callable[[int, int], bool]
"""Whether a message of this offset and priority is available."""


class Ready:
    """Two heaps in the order of handing out: beneath the ceiling, and above it."""

    def __init__(self, ceiling: int) -> None:
        self.ceiling = ceiling
        self._beneath: list[tuple[int, int]] = []
        self._above: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._beneath) + len(self._above)

    def add(self, first: int, priority: int) -> None:
        if first < self.ceiling:
            heappush(self._beneath, (-priority, first))
        else:
            heappush(self._above, (-priority, first))

    def raise_ceiling(self, ceiling: int) -> None:
        assert ceiling >= self.ceiling, (ceiling, self.ceiling)
        self.ceiling = ceiling
        above, self._above = self._above, []
        for entry in above:
            if entry[1] < ceiling:
                heappush(self._beneath, entry)
            else:
                self._above.append(entry)
        heapify(self._above)

    def next(self, is_available: IsAvailable) -> int | None:
        """The offset from which on messages are to be handed out next. It stays until `take`."""
        beneath = self._beneath
        while beneath:
            priority, first = beneath[0]
            if is_available(first, -priority):
                return first
            heappop(beneath)
        return None

    def take(self) -> None:
        """What `next` told is handed out."""
        heappop(self._beneath)

    def next_above(self, is_available: IsAvailable) -> tuple[int, int] | None:
        """The offset that would be next, if the ceiling did not keep it, and its priority."""
        above = self._above
        while above:
            priority, first = above[0]
            if is_available(first, -priority):
                return first, -priority
            heappop(above)
        return None

    def is_overgrown(self, runs: int) -> bool:
        return len(self) > _ENTRIES_SPARED + 2 * runs

    def rebuild(self, entries: Iterable[tuple[int, int]]) -> None:
        """Begin anew with these offsets and priorities."""
        self._beneath.clear()
        self._above.clear()
        for first, priority in entries:
            if first < self.ceiling:
                self._beneath.append((-priority, first))
            else:
                self._above.append((-priority, first))
        heapify(self._beneath)
        heapify(self._above)

    def check(self, needed: Iterable[tuple[int, int]]) -> None:
        """Whether there is an entry for each of these offsets and priorities. For tests."""
        for first, priority in needed:
            entries = self._beneath if first < self.ceiling else self._above
            assert (-priority, first) in entries, (first, priority, self.ceiling)
