"""Room in `__delayed` is given back: what still waits is written anew at its end, and the rest
goes.

The log is cut off from its beginning only. So a message that waits for years would keep everything
that came after it; instead it moves along, under the same number. Now and then, when what is of no
use takes as much room as what is, and some more. The invariants: nothing is cut off that is needed:
what waits is somewhere behind the cut, and so is a checkpoint of everything else, both durable
first; and memory holds one segment's offsets at most.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import islice
from typing import Final

from penstock.broker.delay.admission import Waiting, build_kept, kept_parts
from penstock.broker.delay.store import DelayedStore
from penstock.broker.delay.writer import DelayedWriter
from penstock.coordination.delay.records import CHECKPOINT, Head
from penstock.model.errors import PenstockError
from penstock.model.limits import MIB
from penstock.net.clock import Clock
from penstock.replication.disk.flusher import Flusher
from penstock.storage.due.index import scan
from penstock.storage.due.run import Entry

# So much may be of no use, beside as much as is of use.
_SLACK_BYTES: Final = 64 * MIB
# Messages that are moved at a time, with all the segments they are in.
_MOVED_MAX: Final = 50_000
_MOVED_PER_TURN: Final = 200


class Cleaner:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(self, writer: DelayedWriter, flusher: Flusher, clock: Clock) -> None:
        self._writer = writer
        self._store: DelayedStore = writer.store
        self._replica = writer.store.partition.replica
        self._flusher = flusher
        self._clock = clock
        self.slack_bytes = _SLACK_BYTES
        self._is_cleaning = False

    @property
    def is_due(self) -> bool:
        used_bytes = self._store.table.pending_bytes
        log = self._replica.log
        return log.size_bytes > 2 * used_bytes + self.slack_bytes and bool(log.sealed_segments())

    async def clean(self) -> None:
        """Move what waits in the oldest segments, and let these go, unless that is under way.
        PenstockError: another time."""
        if self._is_cleaning:
            return
        self._is_cleaning = True
        try:
            end_offset = await self._choose()
            if end_offset is not None:
                await self._clean_before(end_offset)
        finally:
            self._is_cleaning = False

    async def _clean_before(self, end_offset: int) -> None:
        # With those that the index does not know of yet.
        self._writer.recently_cancelled = set(self._writer.cancelling)
        try:
            found = await self._find(end_offset)
            await self._move(found)
        finally:
            self._writer.recently_cancelled = None
        await self._writer.write_settled(lambda: (CHECKPOINT, self._store.table.encode()))
        await self._cut(end_offset)

    async def _choose(self) -> int | None:
        """Before which offset everything is to go: of the oldest segments so many that little is to
        be moved for them."""
        segments = self._replica.log.sealed_segments()
        # Not what the store has yet to read.
        segments = [each for each in segments if each.next_offset <= self._store.applied]
        firsts = [segment.first_offset for segment in segments]
        counts = array("q", bytes(8 * len(segments)))

        def count(entry: Entry) -> None:
            at = bisect_right(firsts, entry.offset) - 1
            if at >= 0 and entry.offset < segments[at].next_offset:
                counts[at] += 1

        await _in_turns(self._live(count))
        moved, chosen = 0, None
        for segment, live in zip(segments, counts, strict=True):
            moved += live
            if moved > _MOVED_MAX and chosen is not None:
                break
            chosen = segment.next_offset
        return chosen

    async def _find(self, end_offset: int) -> list[Entry]:
        """What waits before the offset, in the order in which it is there."""
        found: list[Entry] = []

        def note(entry: Entry) -> None:
            if entry.offset < end_offset:
                found.append(entry)

        await _in_turns(self._live(note))
        return sorted(found, key=lambda entry: entry.offset)

    def _live(self, see: Callable[[Entry], None]) -> Generator[None, None, None]:
        """Everything that may still be needed."""
        table = self._store.table

        def seen(entry: Entry) -> None:
            lane = table.lanes.get(entry.lane)
            if lane is not None and not table.is_done(lane, (entry.due_ms, entry.number)):
                see(entry)

        return scan(self._store.index, self._store.table.floor, seen)

    async def _move(self, entries: Sequence[Entry]) -> None:
        """Write them anew, under their numbers."""
        loop = asyncio.get_running_loop()
        for at in range(0, len(entries), _MOVED_PER_TURN):
            await self._writer.freed()
            batches = self._moved(entries[at : at + _MOVED_PER_TURN])
            if batches:
                told: asyncio.Future[PenstockError | None] = loop.create_future()
                self._writer.propose(batches, partial(_tell, told))
                self._writer.end_turn()
                if (error := await told) is not None:
                    raise error

    def _moved(self, entries: Sequence[Entry]) -> list[bytearray]:
        """The batches that they are written in: those of a lane together."""
        cancelled = self._writer.recently_cancelled or ()
        by_lane: dict[int, list[tuple[int, Waiting]]] = defaultdict(list)
        for entry in entries:
            if (entry.due_ms, entry.number) not in cancelled:
                message = self._store.message(entry.offset)
                waiting = Waiting(
                    message.key, message.value, message.headers, entry.due_ms, entry.size
                )
                by_lane[entry.lane].append((entry.number, waiting))
        now_ms, batches = self._clock.now_ms(), []
        for lane, numbered in by_lane.items():
            numbers = iter([number for number, _ in numbered])
            for part in kept_parts([waiting for _, waiting in numbered]):
                head = Head(
                    lane=lane,
                    due_ms=tuple(waiting.due_ms for waiting in part),
                    sizes=tuple(waiting.size for waiting in part),
                    numbers=tuple(islice(numbers, len(part))),
                )
                batches.append(build_kept(head, part, now_ms))
        return batches

    async def _cut(self, end_offset: int) -> None:
        """Let everything before it go."""
        told: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
        self._replica.delete_before(end_offset, partial(_tell, told))
        if (error := await told) is not None:
            raise error
        # It has no producers, so nothing need be saved of them first.
        for job in self._replica.log.cutter.delete_before(end_offset):
            self._flusher.submit(job, lambda: None)


async def _in_turns(work: Generator[None, None, None]) -> None:
    for _ in work:
        await asyncio.sleep(0)


def _tell(told: asyncio.Future[PenstockError | None], error: PenstockError | None) -> None:
    if not told.done():  # whoever waited may be gone
        told.set_result(error)
