"""Which available run is handed out next: the highest priority, then the lowest offset.

Not the runs themselves: an entry says that one may begin there, and whoever takes it looks. The
invariant: every available run has an entry at its first offset, beneath the ceiling among those
that may be handed out, at or above it among those that may not yet. There may be more entries than
runs, but no more than twice as many as when they were last counted.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from penstock.coordination.delivery.window.message_state import Kind
from penstock.coordination.delivery.window.runs import Piece, Runs

# Before the entries that have become worthless are looked for.
_ENTRIES_SPARED: Final = 64


class Ready:
    """Two heaps in the order of handing out: beneath the ceiling, and above it."""

    def __init__(self, ceiling: int, runs: Runs) -> None:
        self.ceiling = ceiling
        self._runs = runs
        self._beneath: list[tuple[int, int]] = []
        self._above: list[tuple[int, int]] = []
        self._entries_max = _ENTRIES_SPARED

    def __len__(self) -> int:
        return len(self._beneath) + len(self._above)

    def add(self, first: int, priority: int) -> None:
        if first < self.ceiling:
            heappush(self._beneath, (-priority, first))
        else:
            heappush(self._above, (-priority, first))
        if len(self._beneath) + len(self._above) > self._entries_max:
            self._rebuild()

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

    def next(self) -> Piece | None:
        """The run to hand out next, as far as it is beneath the ceiling. It stays until `take`."""
        if (piece := self._first_of(self._beneath)) is None:
            return None
        first, end, state = piece
        return first, min(end, self.ceiling), state

    def take(self) -> None:
        """What `next` told is handed out."""
        heappop(self._beneath)

    def next_above(self) -> Piece | None:
        """The run that would be next, if the ceiling did not keep it."""
        return self._first_of(self._above)

    def _first_of(self, entries: list[tuple[int, int]]) -> Piece | None:
        runs = self._runs
        if not runs.counts[Kind.AVAILABLE]:
            return None
        while entries:
            priority, first = entries[0]
            if runs.start <= first < runs.end:
                piece = runs.run_from(first)
                state = piece[2]
                if state.kind is Kind.AVAILABLE and state.priority == -priority:
                    return piece
            heappop(entries)
        return None

    def _needed(self) -> list[tuple[int, int]]:
        return [
            (-state.priority, first)
            for first, _, state in self._runs
            if state.kind is Kind.AVAILABLE
        ]

    def _rebuild(self) -> None:
        needed = self._needed()
        self._beneath = [entry for entry in needed if entry[1] < self.ceiling]
        self._above = [entry for entry in needed if entry[1] >= self.ceiling]
        heapify(self._beneath)
        heapify(self._above)
        self._entries_max = _ENTRIES_SPARED + 2 * len(needed)

    def check(self) -> None:
        """Whether there is an entry for each available run. For tests."""
        for entry in self._needed():
            entries = self._beneath if entry[1] < self.ceiling else self._above
            assert entry in entries, (entry, self.ceiling)
