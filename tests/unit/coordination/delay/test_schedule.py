"""Schedules: checked when they are put, and what is missed is published once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordination.delay.schedule import (
    NEVER,
    Schedule,
    check_schedule,
    decode_schedule,
    encode_schedule,
    fire,
)
from penstock.model.errors import CorruptLog, InvalidSchedule, InvalidTopic

MINUTE = 60_000
EVERY_MINUTE = Schedule(
    name="s",
    cron="* * * * *",
    time_zone="",
    topic="orders",
    key=None,
    value=b"v",
    headers={"a": b"\xff"},
)


def no_zones(name: str) -> None:
    del name


def test_it_is_told_when_it_comes_next() -> None:
    assert check_schedule(EVERY_MINUTE, no_zones, 5).next_due_ms == MINUTE
    east = replace(EVERY_MINUTE, cron="0 0 * * *", time_zone="East")
    checked = check_schedule(east, lambda _: lambda _: 3600, 5)
    assert checked.next_due_ms == 23 * 60 * MINUTE


def test_it_keeps_to_its_times() -> None:
    due = replace(EVERY_MINUTE, next_due_ms=MINUTE)
    assert fire(due, no_zones, MINUTE) == (MINUTE, 2 * MINUTE)
    assert fire(due, no_zones, MINUTE + 59_999) == (MINUTE, 2 * MINUTE)


def test_of_those_that_were_missed_there_is_one() -> None:
    """R-DEL-13: the last, at the time when somebody is there again."""
    due = replace(EVERY_MINUTE, next_due_ms=MINUTE)
    late_ms = 10_000 * MINUTE + 1
    assert fire(due, no_zones, late_ms) == (late_ms, 10_001 * MINUTE)
    every = replace(due, cron="@every 90s", next_due_ms=1000)
    assert fire(every, no_zones, 1000 + 5 * 90_000 + 7) == (451_007, 1000 + 6 * 90_000)


def test_one_that_comes_no_more() -> None:
    due = replace(EVERY_MINUTE, cron="0 0 30 2 *", next_due_ms=MINUTE)
    assert fire(due, no_zones, MINUTE) == (MINUTE, NEVER)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "name has 0"),
        ({"name": "x" * 256}, "name has 256"),
        ({"cron": "0 0 30 2 *"}, "never comes"),
        ({"cron": "nonsense"}, "fields"),
        ({"time_zone": "Mars"}, "no time zone 'Mars'"),
        ({"value": b"x" * 70_000}, "is the limit"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says):
        check_schedule(replace(EVERY_MINUTE, **change), no_zones, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("topic", ["__offsets", "", "a/b"])
def test_topics_that_are_not_for_publishing_are_refused(topic: str) -> None:
    with pytest.raises(InvalidTopic):
        check_schedule(replace(EVERY_MINUTE, topic=topic), no_zones, 0)


def test_it_reads_back() -> None:
    for schedule in (EVERY_MINUTE, replace(EVERY_MINUTE, key=b"\0", next_due_ms=9, published=3)):
        assert decode_schedule(encode_schedule(schedule)) == schedule
    with pytest.raises(CorruptLog):
        decode_schedule(b"{}")
