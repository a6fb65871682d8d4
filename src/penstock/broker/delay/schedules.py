"""Schedules: put, deleted, and each of their messages published once, when it is due.

What is published becomes a delayed message that is due, in the same batch that says when the
schedule comes next: so a crash leaves both or neither. Not when that is:
`coordination.delay.schedule`. The invariants: of one schedule at most one message, or one change,
is on its way into the log; nothing is published that its topic would not take; and what this broker
alone cannot make sense of, as a time zone that it does not have, is kept.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from penstock.broker.delay.admission import Intake, Waiting
from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.partitions.admission import Admission
from penstock.broker.topics.topics import Topics
from penstock.coordination.delay.cron import Zone
from penstock.coordination.delay.records import (
    SCHEDULE,
    SCHEDULE_GONE,
    Due,
    Fired,
    LaneRecord,
    encode_names,
    size_of,
)
from penstock.coordination.delay.schedule import (
    NEVER,
    Schedule,
    check_schedule,
    encode_schedule,
    fire,
)
from penstock.model.errors import InvalidSchedule, PenstockError, UnknownSchedule
from penstock.model.limits import (
    OPENED_BATCH_BYTES_MAX,
    SCHEDULES_BYTES_MAX,
    SCHEDULES_MAX,
)
from penstock.net.clock import Clock
from penstock.records import BatchBuilder, murmur2
from penstock.records.header import check_produced
from penstock.registry.image import TopicImage

logger = logging.getLogger(__name__)

# However far the next one is: somebody may set the clock.
_SLEEP_S_MAX: Final = 1.0
# How often a schedule is tried whose time this broker cannot tell.
_PROBLEM_MS: Final = 60_000


class ScheduleKeeper:
    """One for each term that this broker leads. All calls come from the event loop."""

    def __init__(
        self,
        writer: DelayedWriter,
        intake: Intake,
        topics: Topics,
        clock: Clock,
        *,
        wake: Callable[[int], None],
    ) -> None:
        """wake: whoever delivers, when a message is there that is due at that time."""
        self._writer = writer
        self._table = writer.store.table
        self._intake = intake
        self._topics = topics
        self._clock = clock
        self._wake = wake
        self._news = asyncio.Event()
        # Schedules that something is on its way of, until it is not any more.
        self._firing: dict[str, asyncio.Event] = {}
        # Why the last time came to nothing, and when those are tried again that have no time.
        self._problems: dict[str, str] = {}
        self._try_ms: dict[str, int] = {}

    async def put(self, schedule: Schedule) -> Schedule:
        """Make or replace it; with the time when it comes next."""
        checked = check_schedule(schedule, find_zone, self._clock.now_ms())
        self._admit(checked)
        known = self._table.schedules
        others = [each for each in known.values() if each.name != checked.name]
        if len(others) >= SCHEDULES_MAX:
            raise InvalidSchedule(
                f"There are {SCHEDULES_MAX} schedules, which is the limit: delete some."
            )
        if sum(each.size_bytes for each in others) + checked.size_bytes > SCHEDULES_BYTES_MAX:
            raise InvalidSchedule(
                f"The messages of all schedules have {SCHEDULES_BYTES_MAX} bytes, which is the "
                "limit: make some smaller."
            )
        await self._change(checked.name, SCHEDULE, encode_schedule(checked))
        self._news.set()
        return checked

    async def delete(self, name: str) -> None:
        if name not in self._table.schedules:
            raise UnknownSchedule(f"There is no schedule {name[:80]!r} to delete.")
        await self._change(name, SCHEDULE_GONE, encode_names([name]))

    def all(self) -> list[Schedule]:
        """With what is wrong with each, if anything is."""
        problems = self._problems
        found = [
            replace(each, problem=problems.get(each.name, ""))
            for each in self._table.schedules.values()
        ]
        return sorted(found, key=lambda schedule: schedule.name)

    async def run(self) -> None:
        """Until it is cancelled. PenstockError if the log takes nothing more."""
        while True:
            self._news.clear()
            await self._writer.freed()
            self.fire_due()
            schedules = self._table.schedules.values()
            due_ms = min((self._due_ms(each) for each in schedules), default=None)
            wait_s = _SLEEP_S_MAX
            if due_ms is not None:
                wait_s = min(max(due_ms - self._clock.now_ms(), 1) / 1000, wait_s)
            try:
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
            except TimeoutError:
                """It is time."""

    def fire_due(self) -> None:
        """Publish what is due."""
        now_ms = self._clock.now_ms()
        for schedule in list(self._table.schedules.values()):
            if self._due_ms(schedule) <= now_ms and schedule.name not in self._firing:
                self._fire(schedule, now_ms)
        self._writer.end_turn()

    async def follow_clock(self) -> None:
        """The clock was put back: what has its next time from when it was ahead comes sooner."""
        now_ms = self._clock.now_ms()
        for schedule in list(self._table.schedules.values()):
            try:
                next_due_ms = check_schedule(schedule, find_zone, now_ms).next_due_ms
            except InvalidSchedule:
                continue  # it is told of when it is due
            if next_due_ms < schedule.next_due_ms and schedule.name not in self._firing:
                earlier = replace(schedule, next_due_ms=next_due_ms)
                await self._change(schedule.name, SCHEDULE, encode_schedule(earlier))
        self._news.set()

    def _due_ms(self, schedule: Schedule) -> int:
        return max(schedule.next_due_ms, self._try_ms.get(schedule.name, 0))

    def _admit(self, schedule: Schedule) -> TopicImage:
        """Its topic, which takes the message. Raises why it does not."""
        topic = self._topics.find(schedule.topic)
        headers = list(schedule.headers.items()) or None
        builder = BatchBuilder(OPENED_BATCH_BYTES_MAX)
        builder.append(self._clock.now_ms(), schedule.key, schedule.value, headers)
        batch = memoryview(builder.build())
        admission = Admission(topic.name, self._topics.effective_config(topic), self._clock)
        admission.admit(batch, check_produced(batch), is_appended=False)
        return topic

    def _fire(self, schedule: Schedule, now_ms: int) -> None:
        try:
            due_ms, next_due_ms = fire(schedule, find_zone, now_ms)
        except InvalidSchedule as error:
            # Another broker may know better: it is not for this one to say that it never comes.
            self._note_problem(schedule, error)
            self._try_ms[schedule.name] = now_ms + _PROBLEM_MS
            return
        self._try_ms.pop(schedule.name, None)
        try:
            topic = self._admit(schedule)
        except PenstockError as error:
            self._note_problem(schedule, error)
            self._skip(schedule, next_due_ms)
            return
        self._problems.pop(schedule.name, None)
        count = len(topic.partitions)
        if schedule.key is None:
            partition = schedule.published % count
        else:
            partition = (murmur2(schedule.key) & 0x7FFFFFFF) % count
        lane = LaneRecord(
            lane=0, topic=topic.name, topic_id=topic.id, partition=partition, producer_id=-1
        )
        headers = tuple(schedule.headers.items())
        waiting = Waiting(
            schedule.key,
            schedule.value,
            headers,
            max(due_ms, self._writer.passed.due_ms),
            size_of(schedule.key, schedule.value, headers),
        )

        def done(error: PenstockError | None, dues: Sequence[Due]) -> None:
            self._fired(schedule.name)
            for due in dues:
                self._wake(due.due_ms)
            if error is not None:
                logger.warning("Schedule %s is published later: %s", schedule.name, error)

        self._intake.publish(lane, waiting, Fired(schedule.name, next_due_ms), done)
        self._begin(schedule.name)

    def _note_problem(self, schedule: Schedule, error: PenstockError) -> None:
        logger.warning("Schedule %s published nothing: %s", schedule.name, error)
        self._problems[schedule.name] = str(error)

    def _skip(self, schedule: Schedule, next_due_ms: int) -> None:
        """It has nowhere to go: the next time is tried again."""
        if next_due_ms == NEVER:
            record = SCHEDULE_GONE, encode_names([schedule.name])
        else:
            record = SCHEDULE, encode_schedule(replace(schedule, next_due_ms=next_due_ms))
        told = self._writer.write(record)
        self._begin(schedule.name)
        told.add_done_callback(lambda _: self._fired(schedule.name))

    async def _change(self, name: str, kind: bytes, data: bytes) -> None:
        """Make, replace or delete it, when nothing is on its way of it: that would be taken for a
        message of the new one."""
        await self._writer.freed()
        while (firing := self._firing.get(name)) is not None:
            await firing.wait()
            await self._writer.freed()
        told = self._writer.write((kind, data))
        self._begin(name)
        told.add_done_callback(lambda _: self._fired(name))
        # Whoever asked may be gone before it is written.
        if (error := await asyncio.shield(told)) is not None:
            raise error
        self._problems.pop(name, None)
        self._try_ms.pop(name, None)

    def _begin(self, name: str) -> None:
        self._firing[name] = asyncio.Event()

    def _fired(self, name: str) -> None:
        self._firing.pop(name).set()


def find_zone(name: str) -> Zone | None:
    """As the machine knows it."""
    try:
        zone = ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None

    def offset_s(moment_s: int) -> int:
        offset = datetime.fromtimestamp(moment_s, zone).utcoffset()
        return 0 if offset is None else round(offset.total_seconds())

    return offset_s
