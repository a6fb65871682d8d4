"""Lengths of time as pipelines write them: `5 seconds`, `1 minute`, `500ms`."""

from __future__ import annotations

import re
from typing import Final

from penstock.model.errors import InvalidConfig

_UNITS_MS: Final = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
    **dict.fromkeys(("s", "second", "seconds"), 1000),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60 * 1000),
    **dict.fromkeys(("h", "hour", "hours"), 60 * 60 * 1000),
    **dict.fromkeys(("d", "day", "days"), 24 * 60 * 60 * 1000),
}
_INTERVAL: Final = re.compile(r"(\d{1,15})\s*([a-z]+)")


def interval_ms(text: str) -> int:
    """The length in milliseconds; InvalidConfig shows how it should look."""
    found = _INTERVAL.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise InvalidConfig(f"{text!r} is no length of time: write it as 5 seconds or 1 minute.")
    return int(found[1]) * _UNITS_MS[found[2]]
