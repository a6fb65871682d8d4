"""For lanes that are behind: what of the due messages is theirs, looked for on behalf of all.

The index has the messages of all lanes in one order, so whoever looks for one lane's comes past
everybody's. Lanes take turns, and what is read in a lane's turn serves every other that stands
within it. Not what lanes do with it. The invariants: one turn in each pass of the event loop,
however many are behind; each lane is told of its messages in order, each once; and a lane that is
told that there are no more has all up to the frontier of that moment.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, Protocol

from penstock.broker.delay.store import DelayedStore
from penstock.coordination.delay.records import Due
from penstock.model.errors import PenstockError
from penstock.storage.due.index import DueReader
from penstock.storage.due.run import Entry

# Entries of all lanes that are looked at in one turn: a few milliseconds.
_LOOKED_AT: Final = 2_000
# Entries that all lanes which are behind hold together, and that each may hold at least.
_FOUND_MAX: Final = 20_000
_FOUND_MIN: Final = 50


class Seeker(Protocol):
    """A lane that is behind."""

    number: int
    seen: Due
    """It knows of all up to here."""

    def found(self, entries: Sequence[Entry], seen: Due, is_at_end: bool) -> None:
        """These are all of its up to `seen`; at the end, all there are."""
        ...

    def failed(self, error: PenstockError) -> None:
        """Nothing could be read."""
        ...


class CatchUp:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(self, store: DelayedStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        # In the order in which they have their turns.
        self._seekers: dict[int, Seeker] = {}
        self._reader: DueReader | None = None
        self._next: asyncio.Handle | None = None

    def seek(self, seeker: Seeker) -> None:
        """Look for what it does not know of; it is told once."""
        self._seekers.setdefault(seeker.number, seeker)
        if self._next is None:
            self._next = self._loop.call_soon(self._turn)

    def forget(self, seeker: Seeker) -> None:
        if self._seekers.get(seeker.number) is seeker:
            del self._seekers[seeker.number]

    def _turn(self) -> None:
        self._next = None
        if not self._seekers:
            self._reader = None
            return
        try:
            self._look(next(iter(self._seekers.values())))
        except PenstockError as error:
            seekers, self._seekers = self._seekers, {}
            self._reader = None
            for seeker in seekers.values():
                seeker.failed(error)
            return
        self._next = self._loop.call_soon(self._turn)

    def _look(self, first: Seeker) -> None:
        """The turn of that one."""
        start, frontier = first.seen, self._store.table.frontier
        reader = self._reader
        if reader is None or reader.after != start:
            reader = self._reader = DueReader(self._store.index, start)
        entries = reader.take(frontier, _LOOKED_AT)
        is_at_end, place = reader.is_at_end, Due(*reader.after)
        if is_at_end:
            place = max(place, frontier)
        limit = max(_FOUND_MAX // len(self._seekers), _FOUND_MIN)
        served = [each for each in self._seekers.values() if start <= each.seen <= place]
        found = self._sort(entries, served)
        for seeker in served:
            of_lane, seen, has_all = found.get(seeker.number, []), place, is_at_end
            if len(of_lane) > limit:
                del of_lane[limit:]
                seen, has_all = Due(of_lane[-1].due_ms, of_lane[-1].number), False
            del self._seekers[seeker.number]
            seeker.found(of_lane, seen, has_all)
            if not of_lane and not has_all:
                self._seekers[seeker.number] = seeker

    def _sort(self, entries: Sequence[Entry], seekers: Sequence[Seeker]) -> dict[int, list[Entry]]:
        """By lanes, what these do not know of."""
        is_taken = self._store.table.is_taken
        seen = {seeker.number: seeker.seen for seeker in seekers}
        found: dict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            known, due = seen.get(entry.lane), (entry.due_ms, entry.number)
            if known is not None and due > known and not is_taken(*due):
                found[entry.lane].append(entry)
        return found
