"""The messages of a window as runs of equal state: from an offset up to the next run's.

Not what the states mean. The invariant: the runs cover the window from `start` to `end` without a
gap, no two neighbours are equal, and the counts are those of the runs. A message is in one run, and
so has one state and at most one holder, by construction.

A window of ten thousand messages that are leased and acknowledged in ranges is a handful of runs;
at worst it is ten thousand, and a change moves some 80 kB of list.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from penstock.coordination.delivery.window.message_state import KINDS, Kind, State

Piece = tuple[int, int, State]
"""The first offset, the one behind the last, and the state. A plain tuple: this is a hot path."""


class Runs:
    """A map of the offsets from `start` to `end` to their states."""

    def __init__(self, start: int) -> None:
        assert start >= 0, start
        self.start = start
        self.end = start
        self.counts = [0] * KINDS
        """How many messages are of which kind."""
        self.held: dict[str, int] = {}
        """How many messages each member has leased; no member has 0."""
        # Where each run begins, and behind the last of them the window's end.
        self._bounds: list[int] = [start]
        self._states: list[State] = []

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[Piece]:
        return zip(self._bounds, self._bounds[1:], self._states, strict=False)

    def state_at(self, offset: int) -> State:
        assert self.start <= offset < self.end, (self.start, offset, self.end)
        return self._states[bisect_right(self._bounds, offset) - 1]

    def run_from(self, offset: int) -> Piece:
        """The rest of the run that the offset is in."""
        assert self.start <= offset < self.end, (self.start, offset, self.end)
        index = bisect_right(self._bounds, offset) - 1
        return offset, self._bounds[index + 1], self._states[index]

    def pieces(self, first: int, end: int) -> list[Piece]:
        """The runs between the two offsets, the outer ones cut to fit; of the window alone."""
        first, end = max(first, self.start), min(end, self.end)
        if first >= end:
            return []
        bounds = self._bounds
        index = bisect_right(bounds, first) - 1
        found = []
        while bounds[index] < end:
            piece_end = min(end, bounds[index + 1])
            found.append((max(first, bounds[index]), piece_end, self._states[index]))
            index += 1
        return found

    def append(self, end: int, state: State) -> bool:
        """Make the window longer. Whether that began a run, rather than made the last longer."""
        assert end > self.end, (end, self.end)
        begins = not self._states or self._states[-1] != state
        if begins:
            self._bounds.append(end)
            self._states.append(state)
        self._count(state, end - self.end)
        self._bounds[-1] = self.end = end
        return begins

    def put(self, first: int, end: int, state: State) -> bool:
        """Give these messages a state. Whether a run was cut in two, or lost its beginning, so
        that there is one now that begins at `end` and did not before."""
        assert self.start <= first < end <= self.end, (self.start, first, end, self.end)
        bounds, states = self._bounds, self._states
        low = bisect_right(bounds, first) - 1
        high = bisect_left(bounds, end)
        for index in range(low, high):
            length = min(end, bounds[index + 1]) - max(first, bounds[index])
            self._count(states[index], -length)
        self._count(state, end - first)
        last_state = states[high - 1]
        is_cut = bounds[high] > end and last_state != state
        new_firsts, new_states = [first], [state]
        if bounds[low] < first:
            # What is before stays, in a run of its own or in one with the new.
            if states[low] == state:
                new_firsts[0] = bounds[low]
            else:
                new_firsts.insert(0, bounds[low])
                new_states.insert(0, states[low])
        elif low and states[low - 1] == state:
            low -= 1
            new_firsts[0] = bounds[low]
        if is_cut:
            new_firsts.append(end)
            new_states.append(last_state)
        elif high < len(states) and states[high] == state:
            high += 1
        bounds[low:high] = new_firsts
        states[low:high] = new_states
        return is_cut

    def drop_done(self) -> bool:
        """Begin the window behind the messages that are done. Whether it begins elsewhere now."""
        if not self._states or self._states[0].kind is not Kind.DONE:
            return False
        del self._bounds[0], self._states[0]
        self.counts[Kind.DONE] -= self._bounds[0] - self.start
        self.start = self._bounds[0]
        return True

    def begin_at(self, offset: int) -> None:
        """Forget an empty window, and begin one elsewhere."""
        assert not self._states, (self.start, self.end, offset)
        assert offset >= self.start, (self.start, offset)
        self._bounds[0] = self.start = self.end = offset

    def check(self) -> None:
        """What holds between calls. For tests: it looks at every run."""
        counts, held, at = [0] * KINDS, dict[str, int](), self.start
        before: State | None = None
        for first, end, state in self:
            assert first == at < end, (first, at, end)
            assert state != before, (first, state)
            at, before = end, state
            counts[state.kind] += end - first
            if state.kind is Kind.LEASED:
                held[state.member] = held.get(state.member, 0) + end - first
        assert at == self.end == self._bounds[-1], (at, self.end, self._bounds[-1])
        assert counts == self.counts, (counts, self.counts)
        assert held == self.held, (held, self.held)

    def _count(self, state: State, change: int) -> None:
        self.counts[state.kind] += change
        if state.kind is Kind.LEASED:
            held = self.held.get(state.member, 0) + change
            if held:
                self.held[state.member] = held
            else:
                self.held.pop(state.member, None)
