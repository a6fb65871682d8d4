"""Durations as Java and Kafka's settings write them: ISO 8601, days at most (PnDTnHnMn.nS).

Not our own way of writing them (`cli.quantities`). The invariant: what is read is not negative and
no longer than milliseconds that fit into 64 bits, whatever the text.
"""

from __future__ import annotations

import re
from typing import Final

# As many digits as any sensible number has: what is longer is no duration.
_NUMBER: Final = r"\+?([0-9]{1,12})"
_DURATION: Final = re.compile(
    rf"\+?P(?=.)(?:{_NUMBER}D)?"
    rf"(?:T(?=.)(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}(?:[.,]([0-9]{{0,9}}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_SECONDS: Final = (24 * 60 * 60, 60 * 60, 60, 1)
_INT64_MAX: Final = 2**63 - 1


def duration_ms(text: str) -> int | None:
    """None: it is none, or a negative one, or too long."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    *numbers, fraction = found.groups()
    whole_s = sum(int(number or 0) * each for number, each in zip(numbers, _SECONDS, strict=True))
    found_ms = whole_s * 1000 + int((fraction or "").ljust(3, "0")[:3])
    return found_ms if found_ms <= _INT64_MAX else None
