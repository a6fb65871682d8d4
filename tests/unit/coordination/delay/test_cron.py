"""Cron expressions: the next time, held against a search through every second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.delay.schedules import find_zone
from penstock.coordination.delay.cron import _month_and_day, parse_cron
from penstock.model.errors import InvalidSchedule


def ms(text: str, zone: str = "UTC") -> int:
    moment = datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))
    return round(moment.timestamp()) * 1000


def following(cron: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    offset_s = find_zone(zone)
    assert offset_s is not None
    found, after_ms = [], ms(after, zone)
    for _ in range(count):
        next_ms = parse_cron(cron).next_after(after_ms, offset_s)
        assert next_ms is not None
        assert next_ms > after_ms
        after_ms = next_ms
        moment = datetime.fromtimestamp(after_ms / 1000, ZoneInfo(zone))
        found.append(moment.strftime("%Y-%m-%d %H:%M:%S %a"))
    return found


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("*/15 * * * *", ["2026-01-30 23:45:00 Fri", "2026-01-31 00:00:00 Sat"]),
        ("0 9 * * mon-fri", ["2026-02-02 09:00:00 Mon", "2026-02-03 09:00:00 Tue"]),
        ("30 8 1 * *", ["2026-02-01 08:30:00 Sun", "2026-03-01 08:30:00 Sun"]),
        ("0 0 13 * fri", ["2026-02-06 00:00:00 Fri", "2026-02-13 00:00:00 Fri"]),
        ("0 0 31 */2 *", ["2026-01-31 00:00:00 Sat", "2026-03-31 00:00:00 Tue"]),
        ("0 0 29 feb *", ["2028-02-29 00:00:00 Tue", "2032-02-29 00:00:00 Sun"]),
        ("*/20 59 23 * * *", ["2026-01-30 23:59:00 Fri", "2026-01-30 23:59:20 Fri"]),
        ("0 0 * * 7", ["2026-02-01 00:00:00 Sun", "2026-02-08 00:00:00 Sun"]),
        ("5-10/2,59 0 * JAN *", ["2026-01-31 00:05:00 Sat", "2026-01-31 00:07:00 Sat"]),
        ("@hourly", ["2026-01-31 00:00:00 Sat", "2026-01-31 01:00:00 Sat"]),
        ("@weekly", ["2026-02-01 00:00:00 Sun", "2026-02-08 00:00:00 Sun"]),
        ("@monthly", ["2026-02-01 00:00:00 Sun", "2026-03-01 00:00:00 Sun"]),
        ("@yearly", ["2027-01-01 00:00:00 Fri", "2028-01-01 00:00:00 Sat"]),
        ("@every 90s", ["2026-01-30 23:41:30 Fri", "2026-01-30 23:43:00 Fri"]),
    ],
)
def test_the_times_that_follow(cron: str, expected: list[str]) -> None:
    """R-DEL-13."""
    assert following(cron, "2026-01-30 23:40:00", 2) == expected


def test_what_falls_into_a_missing_hour_comes_once_right_after_it() -> None:
    """Berlin, 29 March 2026: 02:00 is 03:00."""
    assert following("30 2 * * *", "2026-03-28 12:00", 2, "Europe/Berlin") == [
        "2026-03-29 03:00:00 Sun",
        "2026-03-30 02:30:00 Mon",
    ]
    assert following("*/30 * * * *", "2026-03-29 01:00", 4, "Europe/Berlin") == [
        "2026-03-29 01:30:00 Sun",
        "2026-03-29 03:00:00 Sun",
        "2026-03-29 03:30:00 Sun",
        "2026-03-29 04:00:00 Sun",
    ]


def test_what_falls_into_a_repeated_hour_comes_the_first_time_only() -> None:
    """Berlin, 25 October 2026: 03:00 is 02:00."""
    assert following("30 2 * * *", "2026-10-24 12:00", 2, "Europe/Berlin") == [
        "2026-10-25 02:30:00 Sun",
        "2026-10-26 02:30:00 Mon",
    ]
    offset_s = find_zone("Europe/Berlin")
    assert offset_s is not None
    first = parse_cron("30 2 * * *").next_after(ms("2026-10-25 01:00", "Europe/Berlin"), offset_s)
    assert first == ms("2026-10-25 00:30", "UTC")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"])
@given(
    minute=st.sampled_from(["*", "0", "*/7", "13,41"]),
    hour=st.sampled_from(["*", "2", "1-3", "*/5"]),
    day=st.sampled_from(["*", "1", "28-31"]),
    weekday=st.sampled_from(["*", "sun", "1-5"]),
    after=st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)),  # noqa: DTZ001
)
@settings(deadline=None, max_examples=25)
def test_nothing_that_matches_lies_before_the_next_time(
    zone: str, minute: str, hour: str, day: str, weekday: str, after: datetime
) -> None:
    """R-DEL-13: minute by minute, but for what clocks jump over or show twice."""
    offset_s = find_zone(zone)
    assert offset_s is not None
    cron = parse_cron(f"{minute} {hour} {day} * {weekday}")
    after = after.replace(second=0, microsecond=0, tzinfo=UTC)
    found = cron.next_after(round(after.timestamp()) * 1000, offset_s)
    assert found is not None
    moment = after
    for _ in range(3 * 24 * 60):
        moment += timedelta(minutes=1)
        local = moment.astimezone(ZoneInfo(zone))
        days = [local.day in cron.days, local.isoweekday() % 7 in cron.weekdays]
        is_day = all(days) if cron.any_day or cron.any_weekday else any(days)
        is_repeated = local.fold == 1
        if local.minute in cron.minutes and local.hour in cron.hours and is_day and not is_repeated:
            assert round(moment.timestamp()) * 1000 >= found
            return
        if round(moment.timestamp()) * 1000 == found:
            earlier = (moment - timedelta(minutes=1)).astimezone(ZoneInfo(zone))
            assert earlier.utcoffset() != local.utcoffset(), "only after a jump"
            return


def test_the_calendar_agrees_with_another() -> None:
    day = datetime(1970, 1, 1, tzinfo=UTC)
    for number in range(0, 366 * 140, 17):
        other = day + timedelta(days=number)
        assert _month_and_day(number) == (other.month, other.day)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "*-5 * * * *",
        "a * * * *",
        "1, * * * *",
        "99999999999999999999 * * * *",
        "* * * * mo",
        "@every",
        "@every 0s",
        "@every 10",
        "@every -5s",
        "@every 99999d",
        "@sometimes",
        "* " * 300,
    ],
)
def test_nonsense_is_refused_with_a_sentence(cron: str) -> None:
    """R-DEL-13: bad input."""
    with pytest.raises(InvalidSchedule, match=r".{20}\.$"):
        parse_cron(cron)


def test_a_day_that_never_comes_is_none() -> None:
    offset_s = find_zone("UTC")
    assert offset_s is not None
    assert parse_cron("0 0 31 feb *").next_after(0, offset_s) is None


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "", "\0", "a" * 5000])
def test_zones_that_are_none_are_not_found(name: str) -> None:
    assert find_zone(name) is None
