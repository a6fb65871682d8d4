"""What bytes mean where a filter compares them: a number, or a truth; SQL's NULL is None.

The invariant: a whole number that is handed out fits 64 bits, like SQL's, and larger ones are
floating; so arithmetic on them cannot grow, and never raises.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from typing import Final

from penstock.model.limits import FILTER_NUMBER_BYTES_MAX

Number = int | float

_INTEGER_LIMIT: Final = 2**63
_NUMBER: Final = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def number_of(content: bytes) -> Number | None:
    """The number that the bytes spell, in decimal ASCII; None if they spell none."""
    if len(content) > FILTER_NUMBER_BYTES_MAX:
        return None
    if content.isdigit():  # of bytes, which means ASCII
        number = int(content)
        return number if number < _INTEGER_LIMIT else float(number)
    if _NUMBER.fullmatch(content) is None:
        return None
    try:
        return bounded(int(content))
    except ValueError:
        return float(content)


def truth_of(content: bytes) -> bool | None:
    """What "true" and "false" say, in any case of letters; None of anything else."""
    match content[:6].lower():
        case b"true":
            return True
        case b"false":
            return False
    return None


def bounded(number: Number) -> Number | None:
    """The number as it may be handed out; None if it is none."""
    if isinstance(number, int):
        return number if -_INTEGER_LIMIT <= number < _INTEGER_LIMIT else float(number)
    return None if math.isnan(number) else number


def _divide(left: Number, right: Number) -> Number | None:
    if right == 0:
        return None
    if isinstance(left, int) and isinstance(right, int):
        # As in SQL and Java: towards zero.
        quotient = abs(left) // abs(right)
        return quotient if (left < 0) == (right < 0) else -quotient
    return left / right


ARITHMETIC: Final[dict[str, Callable[[Number, Number], Number | None]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


def calculated(sign: str, left: Number, right: Number) -> Number | None:
    result = ARITHMETIC[sign](left, right)
    return None if result is None else bounded(result)
