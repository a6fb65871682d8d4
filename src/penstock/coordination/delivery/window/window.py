"""The messages of a partition that a shared group looks at, and how they pass from state to state.

Not who may do what, nor what counts as an attempt: that is `shared_partition`. The invariant: a
change of state, with what follows for who is ready, for the order of keys and for timers, is made
here and nowhere else; what is available has nobody before it in its key's line and is not expired.

`first` and `end` are a range of offsets, `end` being behind the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from penstock.coordination.delivery.window.deviations import Deviations
from penstock.coordination.delivery.window.message_details import MessageDetails
from penstock.coordination.delivery.window.message_state import DONE, Kind, State
from penstock.coordination.delivery.window.ready import Ready
from penstock.coordination.delivery.window.runs import Piece, Runs
from penstock.coordination.delivery.window.timers import Timer, Timers
from penstock.model.message_headers import PRIORITY_DEFAULT

# What a message may expire in: nobody works on it. Expiry ends no lease.
_NOBODYS: Final = frozenset({Kind.AVAILABLE, Kind.WAITING, Kind.BLOCKED})


class Window:
    """From the first message that is not done to the last that the log was read up to, or that a
    former leader may have leased."""

    def __init__(
        self, start: int, ceiling: int, *, expired: int = 0, is_ordered: bool = False
    ) -> None:
        self.runs = Runs(start)
        self.ready = Ready(ceiling, self.runs)
        self.deviations = Deviations(self._is_done)
        self.fed = start
        """Up to here the log was read."""
        self.expired = expired
        """How many messages have expired, since the group began."""
        self._is_ordered = is_ordered
        self.timers = Timers(self._needed_timers, self._is_of_worth)

    # --- from the log --------------------------------------------------------------------------

    def remember(self, end: int, state: State) -> None:
        """Go on with what a former leader's state says of the messages up to `end`."""
        first = self.runs.end
        self.runs.append(end, state)
        self.timers.add(state.until_ms, first, end)

    def feed(
        self,
        end: int,
        skipped: Sequence[tuple[int, int]],
        details: Sequence[MessageDetails],
        now_ms: int,
    ) -> None:
        """The log has been read up to `end`, from where it was read to before."""
        first, known_end = self.fed, self.runs.end
        self.fed = end
        if end > known_end:
            is_plain = first >= known_end and not skipped and not details
            state = State(Kind.AVAILABLE if is_plain else Kind.AWAITED)
            if self.runs.append(end, state) and is_plain:
                self.ready.add(known_end, PRIORITY_DEFAULT)
            if is_plain:
                return
        for skipped_first, skipped_end in skipped:
            low, high = max(first, skipped_first), min(end, skipped_end)
            if low < high:
                self._put(low, high, DONE)
        for each in details:
            if first <= each.offset < end and not self._is_done(each.offset):
                self.deviations.add(each)
                if each.expires_ms is not None:
                    self.timers.add(each.expires_ms, each.offset, each.offset + 1)
        self._take_up(first, end, now_ms)
        self._drop_done()

    def _take_up(self, first: int, end: int, now_ms: int) -> None:
        """What they are is known now: go on with those that could not go on without it."""
        for low, high, state in self.runs.pieces(first, end):
            if state.kind is Kind.AWAITED:
                self.free(low, high, state.attempts, now_ms, is_doubtful=state.is_doubtful)
            elif state.kind is Kind.WAITING:
                self._expire(low, high, now_ms)

    def forget_before(self, offset: int) -> None:
        """The log does not have them any more."""
        if self.runs.start < min(offset, self.runs.end):
            self._finish_for_good(self.runs.start, min(offset, self.runs.end))
        if offset > self.runs.end:
            self.runs.begin_at(offset)
            self.fed = offset

    # --- from state to state -------------------------------------------------------------------

    def free(
        self,
        first: int,
        end: int,
        attempts: int,
        now_ms: int,
        *,
        until_ms: int = 0,
        is_doubtful: bool = False,
    ) -> None:
        """Nobody holds them any more: they are for whoever comes, after `until_ms`, as far as
        nothing else is against it."""
        if until_ms > now_ms:
            self._put(first, end, State(Kind.WAITING, attempts, until_ms=until_ms))
            self.timers.add(until_ms, first, end)
            self._expire(first, end, now_ms)
            return
        if end > self.fed:
            low = max(first, self.fed)
            self._put(low, end, State(Kind.AWAITED, attempts, is_doubtful=is_doubtful))
            end = low
        if first >= end:
            return
        if not self.deviations:
            self._make_available(first, end, attempts, PRIORITY_DEFAULT, is_doubtful)
            return
        # Those that expired first: others may be first in line then.
        self._expire(first, end, now_ms)
        for low, high, state in self.runs.pieces(first, end):
            if state.kind is not Kind.DONE:
                self._free_in_line(low, high, attempts, is_doubtful)

    def _free_in_line(self, first: int, end: int, attempts: int, is_doubtful: bool) -> None:
        for priority, group in groupby(range(first, end), self.deviations.priority_in_line):
            low, *others = group
            high = low + 1 + len(others)
            if priority is None:
                self._put(low, high, State(Kind.BLOCKED, attempts))
            else:
                self._make_available(low, high, attempts, priority, is_doubtful)

    def _make_available(
        self, first: int, end: int, attempts: int, priority: int, is_doubtful: bool
    ) -> None:
        state = State(Kind.AVAILABLE, attempts, priority=priority, is_doubtful=is_doubtful)
        self._put(first, end, state)
        self.ready.add(first, priority)

    def change(self, first: int, end: int, state: State) -> None:
        """Lease them, let them die, or let them be in doubt for longer."""
        assert state.kind in (Kind.LEASED, Kind.DYING, Kind.IN_DOUBT), state
        self._put(first, end, state)
        self.timers.add(state.until_ms, first, end)

    def finish(self, first: int, end: int) -> None:
        """They are done, which has yet to become durable."""
        self.deviations.settled(first, end)
        if self._is_ordered:
            self.deviations.settled_unread(max(first, self.fed), end)
        self._put(first, end, DONE)
        self._drop_done()

    def _finish_for_good(self, first: int, end: int) -> None:
        """They are done, and would be for any other leader too."""
        self._put(first, end, DONE)
        self._let_next(self.deviations.gone(first, end))
        self._drop_done()

    def saved(self, offsets: tuple[int, ...]) -> None:
        """That these are done is durable: the next of their keys may be handed out."""
        self._let_next(self.deviations.saved(offsets))

    def _let_next(self, firsts: list[int]) -> None:
        for offset in firsts:
            state = self.runs.state_at(offset)
            if state.kind is Kind.BLOCKED:
                self._free_in_line(offset, offset + 1, state.attempts, is_doubtful=False)

    # --- time ----------------------------------------------------------------------------------

    def lapse(self, now_ms: int) -> Iterator[Piece]:
        """Let messages expire, and tell what else has come to its time, for the caller to change
        before it asks for the next."""
        while (timer := self.timers.pop_due(now_ms)) is not None:
            when_ms, first, end = timer
            for piece in self.runs.pieces(first, end):
                low, _, state = piece
                # What else is due has a timer of its own: one after another, by their times.
                if state.until_ms == when_ms:
                    yield piece
                elif state.kind in _NOBODYS and self.deviations.expires_ms(low) == when_ms:
                    self._expire(low, low + 1, now_ms)

    def _expire(self, first: int, end: int, now_ms: int) -> None:
        for offset in self.deviations.expired(first, end, now_ms):
            self.expired += 1
            self._finish_for_good(offset, offset + 1)

    def _is_of_worth(self, timer: Timer) -> bool:
        when_ms, first, end = timer
        # That it expires counts also while it is leased: it may come back before.
        return self.deviations.expires_ms(first) == when_ms or any(
            state.until_ms == when_ms for _, _, state in self.runs.pieces(first, end)
        )

    def _needed_timers(self) -> Iterator[Timer]:
        for first, end, state in self.runs:
            if state.until_ms > 0:
                yield state.until_ms, first, end
        for offset, expires_ms in self.deviations.expiries():
            yield expires_ms, offset, offset + 1

    # --- helpers -------------------------------------------------------------------------------

    def check(self) -> None:
        """What holds between calls. For tests: it looks at everything."""
        self.runs.check()
        assert self.runs.start <= self.fed <= self.runs.end, (self.runs.start, self.fed)
        self.ready.check()
        # A leased message may have expired, and has no timer then.
        self.timers.check(
            (when_ms, first, end)
            for when_ms, first, end in self._needed_timers()
            if (state := self.runs.state_at(first)).until_ms == when_ms or state.kind in _NOBODYS
        )
        for first, end, state in self.runs:
            if state.kind in (Kind.AVAILABLE, Kind.BLOCKED):
                assert end <= self.fed, (first, end, self.fed)
                for offset in range(first, end):
                    is_in_line = self.deviations.priority_in_line(offset) is None
                    assert is_in_line is (state.kind is Kind.BLOCKED), (offset, state)

    def _put(self, first: int, end: int, state: State) -> None:
        if self.runs.put(first, end, state):
            cut = self.runs.state_at(end)
            if cut.kind is Kind.AVAILABLE:
                self.ready.add(end, cut.priority)

    def _drop_done(self) -> None:
        self.runs.drop_done()
        # Messages that were in doubt may be done before the log is read here.
        self.fed = max(self.fed, self.runs.start)

    def _is_done(self, offset: int) -> bool:
        return offset < self.runs.start or self.runs.state_at(offset).kind is Kind.DONE
