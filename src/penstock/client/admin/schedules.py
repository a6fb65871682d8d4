"""Messages that are published again and again, at the times of a cron expression (R-DEL-13).

The broker keeps the schedules and publishes. The invariant: nothing is kept here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.connection.routes import DELAYED, Routes
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DELETE_SCHEDULE, LIST_SCHEDULES, PUT_SCHEDULE


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is published, and when."""

    name: str
    cron: str
    time_zone: str
    topic: str
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]
    next_due_ms: int
    published: int
    problem: str
    """Why it published nothing when it was last due, or nothing."""


class Schedules:
    """Made by `Client.schedules`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def put(
        self,
        name: str,
        cron: str,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        *,
        headers: Mapping[str, bytes] | None = None,
        time_zone: str = "",
    ) -> Schedule:
        """Make a schedule, or replace the one of this name.

        cron: five fields, or six with seconds first; or `@every 90s`, `@hourly` and the like.
        time_zone: as `Europe/Berlin`; none is UTC. Of times that nobody was there for, the last is
        published once.
        """
        schedule = pb.Schedule(
            name=name,
            cron=cron,
            time_zone=time_zone,
            topic=topic,
            key=key,
            value=value,
            headers=headers or {},
        )
        # So that the topic is there, where the broker may make it.
        await self._routes.topic(topic, create=True)
        request = pb.PutScheduleRequest(schedule=schedule)
        answer = await self._routes.call_coordinator(DELAYED, PUT_SCHEDULE, request)
        return _told(answer.schedule)

    async def list(self) -> list[Schedule]:
        """All schedules, by name."""
        answer = await self._routes.call_coordinator(
            DELAYED, LIST_SCHEDULES, pb.ListSchedulesRequest()
        )
        return [_told(each) for each in answer.schedules]

    async def delete(self, name: str) -> None:
        """Publish no more of it."""
        await self._routes.call_coordinator(
            DELAYED, DELETE_SCHEDULE, pb.DeleteScheduleRequest(name=name)
        )


def _told(schedule: pb.Schedule) -> Schedule:
    return Schedule(
        name=schedule.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        topic=schedule.topic,
        key=schedule.key if schedule.HasField("key") else None,
        value=schedule.value,
        headers=dict(schedule.headers),
        next_due_ms=schedule.next_due_ms,
        published=schedule.published,
        problem=schedule.problem,
    )
