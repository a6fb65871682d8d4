"""Numbers, sizes, times and foreign bytes as people read them. Pure; nothing here is HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")
_SIGNIFICANT: Final = ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k"))
_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 86_400_000


def counted(number: int, thing: str, things: str | None = None) -> str:
    """`1 message`, `2,000 messages`."""
    return f"{number:,} {thing if number == 1 else things or thing + 's'}"


def short(number: float) -> str:
    """A number for the label of a chart: `950`, `12.5k`, `3M`."""
    for size, letter in _SIGNIFICANT:
        if abs(number) >= size:
            unit = 1_000 if letter == "k" else size
            return f"{number / unit:.1f}".removesuffix(".0") + letter
    if number == int(number):
        return f"{int(number):,}"
    return f"{number:,.1f}" if abs(number) >= 10 else f"{number:.2g}"


def size(number: float) -> str:
    """`512 B`, `1.4 MiB`."""
    if abs(number) < 1024:
        return f"{number:.0f} B"
    for unit in _UNITS:
        number /= 1024
        if abs(number) < 1024 or unit == _UNITS[-1]:
            break
    return f"{number:.1f}".removesuffix(".0") + f" {unit}"


def duration(milliseconds: float) -> str:
    """`12 ms`, `1.5 s`, `3 min`, `2 h`, `4 d`."""
    for limit, unit_ms, unit in (
        (1_000, 1, "ms"),
        (60_000, 1_000, "s"),
        (_HOUR_MS, 60_000, "min"),
        (2 * _DAY_MS, _HOUR_MS, "h"),
    ):
        if abs(milliseconds) < limit:
            return f"{milliseconds / unit_ms:.1f}".removesuffix(".0") + f" {unit}"
    return f"{milliseconds / _DAY_MS:.1f}".removesuffix(".0") + " d"


def share(part: float) -> str:
    """`0.4 %`, `62 %`."""
    percent = 100 * part
    return f"{percent:.0f} %" if percent >= 10 or percent == int(percent) else f"{percent:.1f} %"


def moment(time_ms: int | None, *, to: str = "seconds") -> str:
    """The moment in UTC, as `2026-11-16 02:00:00`; the bare number where no calendar reaches."""
    if time_ms is None:
        return "-"
    try:
        at = datetime.fromtimestamp(time_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(time_ms)
    return at.isoformat(sep=" ", timespec=to).removesuffix("+00:00")


def clock_label(time_ms: int, width_ms: int) -> str:
    """The moment as the label of a chart whose bars are so wide."""
    text = moment(time_ms, to="milliseconds")
    date, _, clock = text.partition(" ")
    if width_ms >= _DAY_MS or not clock:
        return date
    if width_ms >= _HOUR_MS:
        return f"{date[5:]} {clock[:5]}"
    return clock[:5] if width_ms >= 60_000 else clock[:8] if width_ms >= 1_000 else clock[3:]


def foreign(content: bytes) -> str:
    """Bytes from outside in one line: as text where it is printable, else with \\x escapes."""
    return printable(content.decode(errors="backslashreplace"))


def printable(text: str) -> str:
    """Text from outside in one line that moves no cursor and sets no colour."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )
