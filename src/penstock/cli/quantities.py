"""How people write sizes, lengths of time and moments, turned into bytes and milliseconds.

A plain number is bytes or milliseconds already. Pure: the present is a parameter. What cannot be
read is an InvalidRequest that shows how it should look.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from penstock.model.errors import InvalidRequest
from penstock.model.quantity import parse_duration_ms, parse_quantity

_SIZES: Final = {
    "": 1,
    "b": 1,
    **{f"{prefix}b": 1000**power for power, prefix in enumerate("kmgt", 1)},
    **{f"{prefix}ib": 1024**power for power, prefix in enumerate("kmgt", 1)},
}
_AGO: Final = "-ago"


def size_bytes(text: str) -> int:
    """`65536`, `64KiB`, `1.5 GB`: KiB counts in 1024s, KB in 1000s, as the standards have it."""
    number = parse_quantity(text, _SIZES)
    if number is None:
        raise InvalidRequest(f"{text!r} is not a size: write bytes, or a unit as in 64MiB or 1GB.")
    return number


def duration_ms(text: str) -> int:
    """`500`, `500ms`, `10s`, `5m`, `72h`, `7d`."""
    number = parse_duration_ms(text)
    if number is None:
        raise InvalidRequest(
            f"{text!r} is not a length of time: write milliseconds, or a unit as in 500ms or 72h."
        )
    return number


def moment_ms(text: str, now_ms: int) -> int:
    """`10m-ago`, or a date and time as ISO 8601 has them (without a zone: this machine's)."""
    if text.endswith(_AGO):
        return now_ms - duration_ms(text.removesuffix(_AGO))
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{text!r} is not a time: write it as 2026-01-31T12:00:00, or as in 10m-ago."
        ) from None
    return round(moment.timestamp() * 1000)


def moment_text(timestamp_ms: int) -> str:
    """The moment in UTC, to the millisecond; the bare number where no calendar reaches."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_text(size: int) -> str:
    """A size for people: `512 B`, `1.4 MiB`."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
