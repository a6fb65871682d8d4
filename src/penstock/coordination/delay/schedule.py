"""A message that is published again and again: what it is, and when it comes next.

Not who publishes it. Time zones are handed in, since reading one is not pure. The invariant: a
schedule that was missed, since nobody was there to publish, is published once for all the times
that were missed, and then keeps to its times.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from penstock.coordination.delay.cron import Zone, parse_cron
from penstock.model.errors import CorruptLog, InvalidSchedule
from penstock.model.ids import check_public, check_topic_name
from penstock.model.limits import SCHEDULE_MESSAGE_BYTES_MAX, SCHEDULE_NAME_LENGTH_MAX

Zones = Callable[[str], Zone | None]
"""From the name of a time zone to the zone; None if there is none."""

NEVER: Final = 0
"""Instead of a time: it does not come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    name: str
    cron: str
    time_zone: str
    topic: str
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]
    next_due_ms: int = NEVER
    published: int = 0
    problem: str = ""
    """Why it published nothing when it was last due; not kept."""

    @property
    def size_bytes(self) -> int:
        headers = sum(len(name) + len(value) for name, value in self.headers.items())
        return 200 + len(self.name) + len(self.key or b"") + len(self.value) + headers


def check_schedule(schedule: Schedule, zones: Zones, now_ms: int) -> Schedule:
    """The schedule with its next time. InvalidSchedule, InvalidTopic."""
    if not 0 < len(schedule.name) <= SCHEDULE_NAME_LENGTH_MAX:
        raise InvalidSchedule(
            f"A schedule's name has {len(schedule.name)} characters: give it 1 to "
            f"{SCHEDULE_NAME_LENGTH_MAX}."
        )
    check_topic_name(schedule.topic)
    check_public(schedule.topic)
    if schedule.size_bytes > SCHEDULE_MESSAGE_BYTES_MAX:
        raise InvalidSchedule(
            f"The message of schedule {schedule.name!r} has about {schedule.size_bytes} bytes: "
            f"{SCHEDULE_MESSAGE_BYTES_MAX} is the limit."
        )
    cron, zone = parse_cron(schedule.cron), _zone(schedule, zones)
    next_due_ms = cron.next_after(now_ms, zone)
    if next_due_ms is None:
        raise InvalidSchedule(f"{schedule.cron!r} never comes: there is no such day.")
    return replace(schedule, next_due_ms=next_due_ms)


def fire(schedule: Schedule, zones: Zones, now_ms: int) -> tuple[int, int]:
    """When the message that is published now was due, and when the next one is. Of several that
    were missed, it is the one of now."""
    cron, zone = parse_cron(schedule.cron), _zone(schedule, zones)
    next_due_ms = cron.next_after(schedule.next_due_ms, zone)
    if next_due_ms is None or next_due_ms > now_ms:
        return schedule.next_due_ms, next_due_ms or NEVER
    return now_ms, cron.skip_to(schedule.next_due_ms, now_ms, zone) or NEVER


def _zone(schedule: Schedule, zones: Zones) -> Zone:
    zone = zones(schedule.time_zone) if schedule.time_zone else _utc
    if zone is None:
        raise InvalidSchedule(
            f"There is no time zone {schedule.time_zone[:80]!r}: name one as Europe/Berlin, or "
            "none for UTC."
        )
    return zone


def _utc(moment_s: int) -> int:
    del moment_s
    return 0


def encode_schedule(schedule: Schedule) -> bytes:
    return json.dumps(as_fields(schedule), separators=(",", ":")).encode()


def decode_schedule(data: bytes) -> Schedule:
    try:
        return from_fields(json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptLog(f"A schedule cannot be read: {error!r}.") from error


def as_fields(schedule: Schedule) -> dict[str, object]:
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "topic": schedule.topic,
        "key": None if schedule.key is None else _text(schedule.key),
        "value": _text(schedule.value),
        "headers": {name: _text(value) for name, value in schedule.headers.items()},
        "next_due_ms": schedule.next_due_ms,
        "published": schedule.published,
    }


def from_fields(fields: Mapping[str, Any]) -> Schedule:
    return Schedule(
        name=fields["name"],
        cron=fields["cron"],
        time_zone=fields["time_zone"],
        topic=fields["topic"],
        key=None if fields["key"] is None else base64.b64decode(fields["key"]),
        value=base64.b64decode(fields["value"]),
        headers={name: base64.b64decode(value) for name, value in fields["headers"].items()},
        next_due_ms=fields["next_due_ms"],
        published=fields["published"],
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
