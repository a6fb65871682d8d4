"""Numbers with a unit, as people write them: `64 MiB` and the like, and lengths of time.

Pure, and without an opinion: what cannot be read is None, and whoever asked says how it should
look. The invariant: whole numbers throughout, so nothing is rounded beyond 2**53.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_TIMES_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 1000),
    **dict.fromkeys(("h", "hour", "hours"), 60 * 60 * 1000),
    **dict.fromkeys(("d", "day", "days"), 24 * 60 * 60 * 1000),
}
_QUANTITY: Final = re.compile(
    r"(?P<whole>-?\d{1,19})(?:\.(?P<fraction>\d{1,9}))?\s*(?P<unit>[a-z]*)", re.ASCII
)


def parse_duration_ms(text: str, *, unit_needed: bool = False) -> int | None:
    """`500ms`, `10s`, `5 minutes`, `72h`, `7d`; and `500`, in milliseconds, unless a unit is
    needed."""
    return parse_quantity(text, _TIMES_MS if unit_needed else {**_TIMES_MS, "": 1})


def parse_quantity(text: str, units: Mapping[str, int]) -> int | None:
    """The number in the smallest unit; None where the text or its unit is unknown."""
    match = _QUANTITY.fullmatch(text.strip().lower())
    if match is None or match["unit"] not in units:
        return None
    factor = units[match["unit"]]
    number = int(match["whole"]) * factor
    if match["fraction"]:
        part = int(match["fraction"]) * factor // 10 ** len(match["fraction"])
        number += -part if match["whole"].startswith("-") else part
    return number
