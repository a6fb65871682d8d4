"""Takes messages when they are due, says so durably, and hands them to the lanes.

A round: what is due by the clock is taken from the index, up to a frontier; the frontier is
written; only then is anything delivered. From then on nothing that is accepted comes before it, and
nothing before it is cancelled: so whoever looks after delayed messages next finds the same messages
in the same order, and a count of those that have arrived is enough to go on. The invariants:
nothing is taken before its time; and memory holds only so much of what is due.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from penstock.broker.delay.admission import CLOCK_BACK_MS
from penstock.broker.delay.catch_up import CatchUp
from penstock.broker.delay.destination import DueDestinations
from penstock.broker.delay.lane import LaneRun
from penstock.broker.delay.store import DelayedStore
from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.coordination.delay.records import (
    DECIDED,
    ERA,
    LANES_GONE,
    Arrived,
    Decided,
    Due,
    Share,
    encode_decided,
    encode_due,
    encode_names,
)
from penstock.coordination.delay.table import Lane
from penstock.model.errors import PenstockError
from penstock.net.clock import Clock
from penstock.records.compression import Codec
from penstock.storage.due.index import DueReader
from penstock.storage.due.run import Entry

logger = logging.getLogger(__name__)

_ROUND_MESSAGES: Final = 5_000
# Handed to lanes and not delivered: beyond it no further round begins. Some 150 bytes each.
_HANDED_MAX: Final = 20_000
# However far the next message is: somebody may set the clock.
_SLEEP_S_MAX: Final = 1.0
# A topic that a broker does not know may be so new that it has not heard of it.
_MISSING_S: Final = 30.0
# How often it may be put back before it has made up for it.
_ERAS_MAX: Final = 16
_NUMBER_MAX: Final = 2**62


class Deliverer:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(
        self,
        writer: DelayedWriter,
        destinations: DueDestinations,
        admission: StagedAdmission,
        clock: Clock,
        *,
        forget_lane: Callable[[str, int], None],
        on_damage: Callable[[], None],
    ) -> None:
        self.damaged = on_damage
        self.store: DelayedStore = writer.store
        self.writer = writer
        self.destinations = destinations
        self.catch_up = CatchUp(writer.store)
        self.clock = clock
        self._admission = admission
        self._forget_lane = forget_lane
        self._reader = DueReader(self.store.index, self.store.table.frontier)
        self._runs: dict[int, LaneRun] = {}
        self._handed = 0
        self._asleep_until_ms = 0
        # What is being written down.
        self._unwritten: tuple[Arrived, ...] = ()
        self._news = asyncio.Event()
        # When a lane's topic was first found missing.
        self._missing: dict[int, float] = {}
        self.delivered = 0
        self.dropped = 0
        self.late_ms_max = 0

    def wake(self, due_ms: int = 0) -> None:
        """Look again, unless it is looked before then anyway: there is a new message."""
        if due_ms < self._asleep_until_ms:
            self._news.set()

    def recover(self) -> None:
        """At first, and after something could not be read: what was decided may not have been
        handed over."""
        self.store.catch_up()
        table = self.store.table
        self._reader = DueReader(self.store.index, table.frontier)
        for lane in list(table.lanes.values()):
            if lane.due:
                self._run_of(lane).look_again()

    async def run(self) -> None:
        """Until it is cancelled, or what it writes is refused. PenstockError."""
        while True:
            self._news.clear()
            while await self.round():
                """All that is due, and as fast as lanes take it."""
            await self._until_due()

    def end(self) -> list[asyncio.Task[None]]:
        """Nothing more is sent. What is ending."""
        runs, self._runs = self._runs, {}
        for run in runs.values():
            run.end()
        return [run.task for run in runs.values()]

    # --- rounds --------------------------------------------------------------------------------

    async def round(self) -> bool:
        """Deliver some of what is due. False if nothing is."""
        await self._until_room()
        await self.writer.freed()
        by_lane, is_any = self._take()
        if not is_any:
            return False
        shares = tuple(
            [
                Share(lane, len(entries), sum([entry.size for entry in entries]))
                for lane, entries in by_lane.items()
            ]
        )
        await self._write(
            Decided(frontier=self.writer.passed, shares=shares, arrived=self._take_arrived())
        )
        for number, entries in by_lane.items():
            lane = self.store.table.lanes.get(number)
            if lane is not None:
                self._run_of(lane, len(entries)).feed(entries)
        return True

    def _take(self) -> tuple[dict[int, list[Entry]], bool]:
        """What is due, by its lanes, and whether there was anything at all."""
        writer, table = self.writer, self.store.table
        # What was passed is due, also where somebody has put the clock back since.
        until_ms = max(self.clock.now_ms(), writer.passed.due_ms)
        lowest_ms = writer.lowest_flying_ms
        if lowest_ms is not None:
            until_ms = min(until_ms, lowest_ms - 1)
        entries = self._reader.take((until_ms, _NUMBER_MAX), _ROUND_MESSAGES)
        assert not entries or entries[-1].due_ms <= until_ms, (entries[-1], until_ms)
        passed = Due(*self._reader.after)
        is_any, writer.passed = passed > writer.passed, max(passed, writer.passed)
        by_lane: dict[int, list[Entry]] = defaultdict(list)
        for entry in entries:
            due = entry.due_ms, entry.number
            if entry.lane in table.lanes and not (due in writer.cancelling or table.is_taken(*due)):
                by_lane[entry.lane].append(entry)
        return by_lane, is_any

    async def note_arrived(self) -> None:
        """Write down what has arrived, if nothing else was written with it."""
        await self.writer.freed()
        arrived = self._take_arrived()
        if arrived:
            await self._write(Decided(frontier=self.store.table.frontier, arrived=arrived))

    async def _write(self, decided: Decided) -> None:
        # Only an era puts it back.
        assert decided.frontier >= self.store.table.frontier, (decided, self.store.table.frontier)
        self._unwritten += decided.arrived
        error = await self.writer.write((DECIDED, encode_decided(decided)))
        if error is not None:
            raise error
        written = set(decided.arrived)
        self._unwritten = tuple(each for each in self._unwritten if each not in written)

    def unnoted(self) -> dict[int, tuple[int, int]]:
        """By lanes, how many messages of how many bytes have arrived that count as pending yet."""
        counts = {number: run.unnoted for number, run in self._runs.items()}
        for arrived in self._unwritten:
            messages, size_bytes = counts.get(arrived.lane, (0, 0))
            counts[arrived.lane] = messages + arrived.messages, size_bytes + arrived.size_bytes
        return counts

    def _take_arrived(self) -> tuple[Arrived, ...]:
        found = [run.take_arrived() for run in self._runs.values()]
        return tuple([arrived for arrived in found if arrived is not None])

    async def _until_room(self) -> None:
        while self._handed >= _HANDED_MAX:
            self._news.clear()
            await self._news.wait()

    async def _until_due(self) -> None:
        due_ms, now_ms = self._reader.next_due_ms(), self.clock.now_ms()
        wait_s = _SLEEP_S_MAX
        if due_ms is not None:
            wait_s = min(max(due_ms - now_ms, 1) / 1000, wait_s)
        self._asleep_until_ms = now_ms + round(wait_s * 1000)
        try:
            async with asyncio.timeout(wait_s):
                await self._news.wait()
        except TimeoutError:
            """It is time."""

    async def follow_clock(self) -> bool:
        """If the clock was put back, by more than one can wait for: let the frontier follow it, as
        soon as nothing is on its way. Else what is accepted now would wait until the clock is
        where it was, which may be years. Whether it follows now."""
        table, writer = self.store.table, self.writer
        is_back = self.clock.now_ms() < writer.passed.due_ms - CLOCK_BACK_MS
        if not is_back or len(table.eras) >= _ERAS_MAX or self._is_busy():
            return False
        logger.warning(
            "The clock is %d ms behind what is delivered already: it was put back",
            writer.passed.due_ms - self.clock.now_ms(),
        )

        def begin() -> tuple[bytes, bytes] | None:
            if self._is_busy() or table.frontier != writer.passed:
                return None
            return ERA, encode_due(Due(self.clock.now_ms(), 0))

        has_begun = await writer.write_settled(begin, then=self._begin_era)
        if has_begun:
            self.wake()
        return has_begun

    def _begin_era(self) -> None:
        """The store has it, and nothing else was written since."""
        self.end()
        self.writer.passed = self.store.table.frontier
        self._reader = DueReader(self.store.index, self.store.table.frontier)

    def _is_busy(self) -> bool:
        is_any_due = any(lane.due for lane in self.store.table.lanes.values())
        return is_any_due or any(run.unnoted[0] for run in self._runs.values())

    # --- lanes ---------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Now and then: let idle lanes go, and notice topics that are gone."""
        for number, run in list(self._runs.items()):
            if run.is_idle:
                del self._runs[number]
                run.end()

    async def drop_gone(self) -> None:
        """Drop what waits for topics that were deleted."""
        gone = []
        now_s = self.clock.monotonic()
        for lane in self.store.table.lanes.values():
            if self.destinations.exists(lane):
                self._missing.pop(lane.number, None)
            elif now_s - self._missing.setdefault(lane.number, now_s) >= _MISSING_S:
                gone.append(lane)
        if not gone:
            return
        await self.writer.freed()
        for lane in gone:
            del self._missing[lane.number]
            self._forget_lane(lane.topic_id, lane.partition)
            self.dropped += lane.pending
            if lane.pending:
                logger.warning(
                    "Topic %s was deleted: %d messages for its partition %d are dropped",
                    lane.topic,
                    lane.pending,
                    lane.partition,
                )
        error = await self.writer.write((LANES_GONE, encode_names([lane.number for lane in gone])))
        if error is not None:
            raise error

    def _run_of(self, lane: Lane, due: int = 0) -> LaneRun:
        """due: of what the lane has on its way, so much is handed over next."""
        run = self._runs.get(lane.number)
        if run is None:
            run = LaneRun(lane, self, self._ended, due=due)
            self._runs[lane.number] = run
        return run

    def _ended(self, run: LaneRun) -> None:
        if self._runs.get(run.number) is run:
            del self._runs[run.number]

    # --- delay.lane_run.Surroundings -------------------------------------------------------------

    def codec(self, lane: Lane) -> Codec:
        try:
            codec = self._admission.find(lane.topic, lane.partition).opening.codec
        except PenstockError:
            return Codec.NONE
        return codec or Codec.NONE

    def handed(self, entries: int) -> None:
        self._handed += entries
        assert self._handed >= 0, (self._handed, entries)
        if entries < 0:
            self._news.set()

    def arrived(self, entries: Sequence[Entry]) -> None:
        self.delivered += len(entries)
        late_ms = self.clock.now_ms() - entries[0].due_ms
        self.late_ms_max = max(self.late_ms_max, late_ms)
