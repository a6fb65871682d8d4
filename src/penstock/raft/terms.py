"""Which term each offset of a log was written in, from the few offsets where the term changes.

A log's terms only rise, so the places where a new one begins say everything: `term_before(offset)`
is the term of the record that ends there, which with the offset itself is what Raft calls a log
position. A place is always where a batch begins, since a batch has one term. Not the log: whoever
writes and cuts that says so here. The invariant: terms and offsets both rise from entry to entry,
and every entry lies in [start, end).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from penstock.model.errors import CorruptLog


class TermStart(NamedTuple):
    """The first offset that was written in a term."""

    term: int
    offset: int


class TermHistory:
    """The terms of one log, from where it starts to where it ends."""

    __slots__ = ("_offsets", "_terms", "end_offset", "start_offset", "start_term")

    def __init__(self, start_offset: int = 0, start_term: int = 0) -> None:
        """An empty log. start_term: of the record before it; 0 if there never was one."""
        self.start_offset = self.end_offset = start_offset
        self.start_term = start_term
        self._terms: list[int] = []
        self._offsets: list[int] = []

    @classmethod
    def found(cls, begun: tuple[TermStart, ...], start_offset: int, end_offset: int) -> TermHistory:
        """Of a log that was found to be so. `begun` was kept before it was written, so it may tell
        of more, before the start or after the end; not of less, unless a crash brought back what
        was dropped: that is dropped again."""
        known = [place for place in begun if place.offset < end_offset]
        if end_offset > start_offset and not known:
            raise CorruptLog(
                f"Nobody knows the terms of a log from {start_offset} to {end_offset}: what was "
                f"kept tells of {begun}. Empty the data folder: the broker comes back as a new one."
            )
        history = cls()
        history._terms = [place.term for place in known]
        history._offsets = [place.offset for place in known]
        history.end_offset = end_offset
        # Unless it is the log's very first, the first is the last record before the start.
        is_rest_unknown = bool(known) and known[0].offset > max(start_offset - 1, 0)
        history.drop_before(known[0].offset + 1 if is_rest_unknown else start_offset)
        return history

    @property
    def last_term(self) -> int:
        """The term of the last record; of the one before the start if there is none."""
        return self._terms[-1] if self._terms else self.start_term

    @property
    def begun(self) -> tuple[TermStart, ...]:
        """What must be kept to know it all again, the term before the start included."""
        runs = tuple(map(TermStart, self._terms, self._offsets))
        if self.start_offset == 0:
            return runs
        is_one_run = bool(runs) and runs[0].term == self.start_term
        before = TermStart(self.start_term, self.start_offset - 1)
        return (before, *(runs[1:] if is_one_run else runs))

    def term_before(self, offset: int) -> int:
        """The term of the record that ends at the offset, which the log has or starts with."""
        assert self.start_offset <= offset <= self.end_offset, (offset, self)
        place = bisect_left(self._offsets, offset)
        return self._terms[place - 1] if place else self.start_term

    def extend(self, term: int, end_offset: int) -> bool:
        """Records of the term were written at the end. Whether the term is a new one."""
        assert end_offset > self.end_offset, (end_offset, self)
        is_new = term != self.last_term or not self._terms
        if is_new:
            assert term >= self.last_term, (term, self)
            self._terms.append(term)
            self._offsets.append(self.end_offset)
        self.end_offset = end_offset
        return is_new

    def truncate(self, offset: int) -> None:
        """Everything from the offset on is gone."""
        assert self.start_offset <= offset <= self.end_offset, (offset, self)
        place = bisect_left(self._offsets, offset)
        del self._terms[place:], self._offsets[place:]
        self.end_offset = offset

    def drop_before(self, offset: int) -> None:
        """The log starts there from now on; if it did not reach so far, it is empty."""
        if offset <= self.start_offset:
            return
        place = bisect_right(self._offsets, offset)
        if place:
            # The term before the new start; the one that holds it begins with it from now on.
            before = bisect_left(self._offsets, offset)
            self.start_term = self._terms[before - 1] if before else self.start_term
            current = self._terms[place - 1]
            del self._terms[:place], self._offsets[:place]
            if offset < self.end_offset:
                self._terms.insert(0, current)
                self._offsets.insert(0, offset)
        self.start_offset = offset
        self.end_offset = max(self.end_offset, offset)

    def last_place_of(self, term: int) -> TermStart:
        """The largest term up to the given one that the log has, and where it ends: the furthest
        that this log and one with the given term can agree. The start, if it has none so small."""
        place = bisect_right(self._terms, term)
        if place == 0:
            return TermStart(self.start_term, self.start_offset)
        end = self._offsets[place] if place < len(self._offsets) else self.end_offset
        return TermStart(self._terms[place - 1], end)

    def is_behind(self, last_term: int, end_offset: int) -> bool:
        """Paper, 5.4.1: this log has nothing that one which ends so lacks, if it is committed."""
        return (self.last_term, self.end_offset) <= (last_term, end_offset)

    def __repr__(self) -> str:
        return f"TermHistory({self.start_offset}..{self.end_offset}, {self.begun})"
