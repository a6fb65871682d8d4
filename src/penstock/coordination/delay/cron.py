"""Cron expressions: when they come next, in any time zone.

    second(optional) minute hour day-of-month month day-of-week      numbers, names, *, a-b, a,b,
    /step @every 90s   @hourly   @daily or @midnight   @weekly   @monthly   @yearly or @annually

As in Vixie's cron, where both a day of the month and one of the week are given, either will do; 0
and 7 are Sunday. Where clocks are put forward, what would fall into the missing hour comes once,
right after it; where they are put back, what falls into the repeated hour comes the first time
only. The invariant: `next_after(t)` is later than t, and nothing that matches lies between them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import InvalidSchedule
from penstock.model.limits import CRON_LENGTH_MAX, DELAY_MS_MAX
from penstock.model.quantity import parse_duration_ms

Zone = Callable[[int], int]
"""By how many seconds clocks are ahead of UTC at a moment, in seconds since 1970."""

_DAY_S: Final = 24 * 60 * 60
# The longest that a date can take to come again: a 29th of February, over a year like 2100.
_DAYS_MAX: Final = 9 * 366
_EVERY: Final = "@every"
_EVERY_MS_MIN: Final = 1000
_SHORTHANDS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS: Final = {
    "jan": 1,
    "feb": 2,
    "mar": 3,
    "apr": 4,
    "may": 5,
    "jun": 6,
    "jul": 7,
    "aug": 8,
    "sep": 9,
    "oct": 10,
    "nov": 11,
    "dec": 12,
}
_DAYS: Final = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_PART: Final = re.compile(r"(?P<first>\*|\w+)(?:-(?P<last>\w+))?(?:/(?P<step>\d{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    first: int
    last: int
    names: dict[str, int]


_FIELDS: Final = (
    _Field("second", 0, 59, {}),
    _Field("minute", 0, 59, {}),
    _Field("hour", 0, 23, {}),
    _Field("day of month", 1, 31, {}),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """A parsed expression. every_ms: then the rest does not matter."""

    every_ms: int = 0
    seconds: Sequence[int] = ()
    minutes: Sequence[int] = ()
    hours: Sequence[int] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = True
    any_weekday: bool = True

    def next_after(self, after_ms: int, zone: Zone) -> int | None:
        """The first time later than that, in ms since 1970; None if there is none for years."""
        if self.every_ms:
            return after_ms + self.every_ms
        after_s = after_ms // 1000
        local_s = after_s + zone(after_s)
        while True:
            found_s = self._next_local(local_s)
            if found_s is None:
                return None
            moment_s = _first_shown(found_s, zone)
            if moment_s > after_s:
                return moment_s * 1000
            local_s = found_s  # it was in the hour that is repeated

    def skip_to(self, due_ms: int, now_ms: int, zone: Zone) -> int | None:
        """The first time later than now, of those that follow one another from `due_ms` on."""
        if self.every_ms:
            return due_ms + ((now_ms - due_ms) // self.every_ms + 1) * self.every_ms
        return self.next_after(now_ms, zone)

    def _next_local(self, after_s: int) -> int | None:
        """The first later time of the clock on the wall that matches, in seconds since 1970 as if
        it were UTC."""
        first_day, second = divmod(after_s, _DAY_S)
        earliest_s = second + 1
        for day in range(first_day, first_day + _DAYS_MAX):
            if self._matches(day):
                found_s = self._next_time(earliest_s)
                if found_s is not None:
                    return day * _DAY_S + found_s
            earliest_s = 0
        return None

    def _matches(self, day: int) -> bool:
        month, day_of_month = _month_and_day(day)
        if month not in self.months:
            return False
        in_month = day_of_month in self.days
        # The first of January 1970 was a Thursday.
        in_week = (day + 4) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week

    def _next_time(self, earliest_s: int) -> int | None:
        """Of a day, in seconds, not before that; None: there is none."""
        hour, rest_s = divmod(earliest_s, 3600)
        minute, second = divmod(rest_s, 60)
        for hours in self.hours:
            if hours < hour:
                continue
            for minutes in self.minutes:
                if hours == hour and minutes < minute:
                    continue
                for seconds in self.seconds:
                    if (hours, minutes) == (hour, minute) and seconds < second:
                        continue
                    return hours * 3600 + minutes * 60 + seconds
        return None


def parse_cron(text: str) -> Cron:
    """InvalidSchedule says which field is wrong, and how."""
    if len(text) > CRON_LENGTH_MAX:
        raise InvalidSchedule(
            f"A cron expression has {len(text)} characters: {CRON_LENGTH_MAX} is the limit."
        )
    words = text.lower().split()
    if words and words[0] == _EVERY:
        return _every(text, " ".join(words[1:]))
    if len(words) == 1 and words[0] in _SHORTHANDS:
        words = _SHORTHANDS[words[0]].split()
    if len(words) == 5:
        words = ["0", *words]
    if len(words) != 6:
        raise InvalidSchedule(
            f"{text!r} has {len(words)} fields: a cron expression has five (minute, hour, day of "
            'month, month, day of week), or six with seconds first, or is like "@every 90s".'
        )
    parsed = [_parse_field(field, word) for field, word in zip(_FIELDS, words, strict=True)]
    seconds, minutes, hours, days, months, weekdays = parsed
    return Cron(
        seconds=sorted(seconds),
        minutes=sorted(minutes),
        hours=sorted(hours),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(number % 7 for number in weekdays),
        any_day=words[3].startswith("*"),
        any_weekday=words[5].startswith("*"),
    )


def _every(text: str, length: str) -> Cron:
    every_ms = parse_duration_ms(length, unit_needed=True)
    if every_ms is None or not _EVERY_MS_MIN <= every_ms <= DELAY_MS_MAX:
        raise InvalidSchedule(
            f'{text!r} is no interval: write "@every 90s", from a second to ten years.'
        )
    return Cron(every_ms=every_ms)


def _parse_field(field: _Field, text: str) -> set[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None or (match["first"] == "*" and match["last"]):
            raise _wrong(field, part)
        if match["first"] == "*":
            first, last = field.first, field.last
        else:
            first = _number(field, part, match["first"])
            last = first
            if match["last"]:
                last = _number(field, part, match["last"])
            elif match["step"]:
                last = field.last
        step = int(match["step"] or 1)
        if first > last or step == 0:
            raise _wrong(field, part)
        numbers.update(range(first, last + 1, step))
    return numbers


def _number(field: _Field, part: str, text: str) -> int:
    number = field.names.get(text[:3] if text.isalpha() else text)
    if number is None and text.isdigit() and len(text) <= 4:
        number = int(text)
    if number is None or not field.first <= number <= field.last:
        raise _wrong(field, part)
    return number


def _wrong(field: _Field, part: str) -> InvalidSchedule:
    return InvalidSchedule(
        f"{part[:40]!r} is no {field.name} of a cron expression: give numbers from {field.first} "
        f"to {field.last}, as in *, 1,2, 1-5 or */2."
    )


def _month_and_day(day: int) -> tuple[int, int]:
    """Of the day with that number since 1970 (Howard Hinnant, chrono-compatible low-level date
    algorithms: civil_from_days). Years begin in March, so that a leap day ends one."""
    day_of_era = (day + 719_468) % 146_097
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day_of_month = day_of_year - (153 * month + 2) // 5 + 1
    return (month + 3 if month < 10 else month - 9), day_of_month


def _first_shown(local_s: int, zone: Zone) -> int:
    """When the clock on the wall first shows that; or if it never does, when it jumps over it."""
    # What holds a day earlier and a day later: between them clocks are put forward or back once.
    before_s, after_s = zone(local_s - _DAY_S), zone(local_s + _DAY_S)
    for moment_s in sorted((local_s - before_s, local_s - after_s)):
        if moment_s + zone(moment_s) == local_s:
            return moment_s
    low_s, high_s = local_s - max(before_s, after_s), local_s - min(before_s, after_s)
    while high_s - low_s > 1:
        middle_s = (low_s + high_s) // 2
        if zone(middle_s) == before_s:
            low_s = middle_s
        else:
            high_s = middle_s
    return high_s
