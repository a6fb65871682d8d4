"""Delayed messages, from when this broker has read all of `__delayed` as its leader until it no
longer leads it: accepted, cancelled, described, delivered, tidied.

Put together here from parts that each do one of these. The invariants: everything is written in the
one term; what fails is tried again for as long as this broker leads; and with the first write that
is refused this service ends, so that the next one knows nothing but what the log says.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from penstock.broker.carrier.parts import Parts
from penstock.broker.delay.admission import Accepted, Intake
from penstock.broker.delay.cleaner import Cleaner
from penstock.broker.delay.deliverer import Deliverer
from penstock.broker.delay.destination import DueDestinations
from penstock.broker.delay.schedules import ScheduleKeeper
from penstock.broker.delay.store import DelayedStore
from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.topics.openings import Opened
from penstock.broker.topics.remote_admission import StagedAdmission
from penstock.broker.turns.handler_tasks import note_bug
from penstock.coordination.delay.records import Cancelled, Due
from penstock.model.errors import Busy, CorruptLog, InvalidRequest, PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.storage.due.index import LAST, DueReader
from penstock.storage.due.run import Entry

logger = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_RETRY_S: Final = 0.5
# How often it is looked for topics that are gone.
_GONE_TICKS: Final = 5
_DUE_MAX: Final = 2**62
# Cancellations in one record: each is looked for in the index.
_CANCELLED_PER_TURN: Final = 50
# Before the next that is due, when that is asked for.
_CANCELLED_LOOKED_AT_MAX: Final = 1_000


class DelayService:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(
        self,
        store: DelayedStore,
        parts: Parts,
        *,
        on_damage: Callable[[], None],
        on_refused: Callable[[], None],
    ) -> None:
        """on_damage: called when the index turns out to be of no use. on_refused: called when the
        log did not take something: another service has to begin, from what the log says."""
        clock = parts.clock
        self._on_damage = on_damage
        self._store = store
        self._loop = asyncio.get_running_loop()
        self.writer = DelayedWriter(store, parts.driver, clock, on_refused)
        admission = StagedAdmission(parts.topics, parts.leaders, clock)
        self.intake = Intake(self.writer, admission, clock)
        self.deliverer = Deliverer(
            self.writer,
            DueDestinations(parts),
            admission,
            clock,
            forget_lane=self.intake.forget_lane,
            on_damage=on_damage,
        )
        self.schedules = ScheduleKeeper(
            self.writer, self.intake, parts.topics, clock, wake=self.deliverer.wake
        )
        self.cleaner = Cleaner(self.writer, parts.flusher, clock)
        self._tasks: list[asyncio.Task[None]] = []
        self._cancelled = 0
        self._ticks = 0

    def start(self) -> None:
        for work in (self._deliver, self.schedules.run, self._keep_house):
            task = self._loop.create_task(self._again(work))
            task.add_done_callback(note_bug)
            self._tasks.append(task)

    def end(self) -> list[asyncio.Task[None]]:
        """Nothing more is begun. What is ending."""
        for task in self._tasks:
            task.cancel()
        return [*self._tasks, *self.deliverer.end()]

    async def stop(self) -> None:
        """In good order: what has arrived is written down, so that nobody need ask."""
        try:
            async with asyncio.timeout(_TICK_S):
                await self.deliverer.note_arrived()
        except (PenstockError, TimeoutError) as error:
            logger.info("What has arrived is found out by whoever comes next: %s", error)
        await asyncio.gather(*self.end(), return_exceptions=True)

    async def _again(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """For as long as this broker leads."""
        while self.writer.is_current:
            try:
                await work()
            except PenstockError as error:
                if self._store.index.is_damaged:
                    self._on_damage()
                    return
                logger.warning("Delayed messages have to wait: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _deliver(self) -> None:
        self.deliverer.recover()
        await self.deliverer.run()

    async def _keep_house(self) -> None:
        if self._store.table.eras:
            # Whoever let the frontier follow the clock may not have come to the schedules.
            await self.schedules.follow_clock()
        while True:
            await asyncio.sleep(_TICK_S)
            await self.deliverer.note_arrived()
            self.deliverer.tidy()
            if await self.deliverer.follow_clock():
                await self.schedules.follow_clock()
            self._ticks += 1
            if self._ticks % _GONE_TICKS == 0:
                await self.deliverer.drop_gone()
            if self.cleaner.is_due:
                await self.cleaner.clean()

    # --- what handlers ask for -----------------------------------------------------------------

    def accept(self, request: pb.DelayRequest, opened: Opened, accepted: Accepted) -> None:
        def done(error: PenstockError | None, dues: Sequence[Due]) -> None:
            accepted(error, dues)
            if dues:
                self.deliverer.wake(min(dues).due_ms)

        self.intake.accept(request, opened, done)

    async def cancel(self, dues: Sequence[tuple[int, int]]) -> list[bool]:
        """Whether each was cancelled: if it waited, and is not on its way."""
        if any(not (0 <= due_ms < _DUE_MAX and 0 < number < _DUE_MAX) for due_ms, number in dues):
            raise InvalidRequest("That is no delayed message: give what its receipt says.")
        outcomes: list[bool] = []
        for at in range(0, len(dues), _CANCELLED_PER_TURN):
            outcomes += await self._cancel(dues[at : at + _CANCELLED_PER_TURN])
        return outcomes

    async def _cancel(self, dues: Sequence[tuple[int, int]]) -> list[bool]:
        entries: dict[Due, Entry] = {}
        for due_ms, number in dues:
            try:
                entry = self._store.index.find(due_ms, number)
            except CorruptLog as error:
                self._on_damage()
                raise Busy(f"What is delayed is read anew: {error}") from error
            if entry is not None:
                entries[Due(due_ms, number)] = entry
            # Of millions that wait, each takes some tenths of a millisecond.
            await asyncio.sleep(0)
        await self.writer.freed()
        self.writer.check_current()
        found: dict[Due, Cancelled] = {}
        outcomes = []
        for due in map(Due._make, dues):
            is_found = due not in found and due in entries and self._still_waits(entries[due])
            outcomes.append(is_found)
            if is_found:
                found[due] = Cancelled(due, entries[due].lane, entries[due].size)
        if found:
            await self.writer.cancel(list(found.values()))
            self._cancelled += len(found)
        return outcomes

    def _still_waits(self, entry: Entry) -> bool:
        """One that was found a moment ago."""
        due, table = Due(entry.due_ms, entry.number), self._store.table
        is_known = entry.lane in table.lanes and not table.is_taken(*due)
        return is_known and due > self.writer.passed and due not in self.writer.cancelling

    def describe(self, topic: str) -> pb.DescribeDelayedResponse:
        self.writer.check_current()
        table = self._store.table
        response = pb.DescribeDelayedResponse(
            delivered=self.deliverer.delivered,
            cancelled=self._cancelled,
            dropped=self.deliverer.dropped,
            late_ms_max=self.deliverer.late_ms_max,
            log_bytes=self._store.partition.replica.log.size_bytes,
        )
        by_topic: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        unnoted = self.deliverer.unnoted()
        for lane in table.lanes.values():
            if topic in ("", lane.topic):
                messages, size_bytes = unnoted.get(lane.number, (0, 0))
                by_topic[lane.topic][0] += lane.pending - messages
                by_topic[lane.topic][1] += lane.pending_bytes - size_bytes
        for name, (pending, pending_bytes) in sorted(by_topic.items()):
            if pending > 0:
                response.topics.add(topic=name, pending=pending, pending_bytes=pending_bytes)
        if table.pending and not topic:
            reader = DueReader(self._store.index, table.frontier)
            waiting = reader.take(LAST, _CANCELLED_LOOKED_AT_MAX)
            # Of many that were cancelled one after another, the next of all has to do.
            response.next_due_ms = waiting[0].due_ms if waiting else reader.next_due_ms() or 0
        return response
