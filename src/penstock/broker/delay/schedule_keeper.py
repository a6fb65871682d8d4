"""Schedules: put, deleted, and each of their messages published once, when it is due.

What is published becomes a delayed message that is due, in the same batch that says when the
schedule comes next: so a crash leaves both or neither. Not when that is:
`coordination.delay.schedule`. The invariant: of one schedule at most one message is on its way into
the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo

from penstock.broker.delay.intake import Intake, Waiting
from penstock.broker.delay.writer import DelayedWriter
from penstock.broker.topics import Topics
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
from penstock.model.delivery_errors import InvalidSchedule, UnknownSchedule
from penstock.model.errors import PenstockError, UnknownTopic
from penstock.model.limits import SCHEDULES_BYTES_MAX, SCHEDULES_MAX
from penstock.net.clock import Clock
from penstock.records import murmur2

logger = logging.getLogger(__name__)

# However far the next one is: somebody may set the clock.
_SLEEP_S_MAX: Final = 1.0


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
        self._firing: set[str] = set()

    async def put(self, schedule: Schedule) -> Schedule:
        """Make or replace it; with the time when it comes next."""
        checked = check_schedule(schedule, find_zone, self._clock.now_ms())
        self._topics.find(checked.topic)
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
        await self._write(SCHEDULE, encode_schedule(checked))
        self._news.set()
        return checked

    async def delete(self, name: str) -> None:
        if name not in self._table.schedules:
            raise UnknownSchedule(f"There is no schedule {name[:80]!r} to delete.")
        await self._write(SCHEDULE_GONE, encode_names([name]))

    def all(self) -> list[Schedule]:
        return sorted(self._table.schedules.values(), key=lambda schedule: schedule.name)

    async def run(self) -> None:
        """Until it is cancelled. PenstockError if the log takes nothing more."""
        while True:
            self._news.clear()
            await self._writer.freed()
            self.fire_due()
            schedules = self._table.schedules.values()
            due_ms = min((each.next_due_ms for each in schedules), default=None)
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
            if schedule.next_due_ms <= now_ms and schedule.name not in self._firing:
                self._fire(schedule, now_ms)
        self._writer.end_turn()

    def _fire(self, schedule: Schedule, now_ms: int) -> None:
        try:
            due_ms, next_due_ms = fire(schedule, find_zone, now_ms)
            topic = self._topics.find(schedule.topic)
        except (UnknownTopic, InvalidSchedule) as error:
            logger.warning("Schedule %s published nothing: %s", schedule.name, error)
            self._skip(schedule, now_ms)
            return
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
        self._firing.add(schedule.name)

        def done(error: PenstockError | None, dues: Sequence[Due]) -> None:
            self._firing.discard(schedule.name)
            for due in dues:
                self._wake(due.due_ms)
            if error is not None:
                logger.warning("Schedule %s is published later: %s", schedule.name, error)

        try:
            self._intake.publish(lane, waiting, Fired(schedule.name, next_due_ms), done)
        except PenstockError:
            self._firing.discard(schedule.name)
            raise

    def _skip(self, schedule: Schedule, now_ms: int) -> None:
        """It has nowhere to go: the next time is tried again."""
        try:
            _, next_due_ms = fire(schedule, find_zone, now_ms)
        except InvalidSchedule:
            next_due_ms = NEVER
        if next_due_ms == NEVER:
            record = SCHEDULE_GONE, encode_names([schedule.name])
        else:
            record = SCHEDULE, encode_schedule(replace(schedule, next_due_ms=next_due_ms))
        self._firing.add(schedule.name)
        told = self._writer.write(record)
        told.add_done_callback(lambda _: self._firing.discard(schedule.name))

    async def _write(self, kind: bytes, data: bytes) -> None:
        await self._writer.freed()
        error = await self._writer.write((kind, data))
        if error is not None:
            raise error


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
