"""One piece of text as one value of Spark's: numbers, dates, times, decimals, base64.

Not whole columns: `columns` casts those, and accepts nothing that is refused here. The invariant: a
function returns what Arrow takes for the type without loss, or raises `ValueError`.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from penstock.spark.values.blocks import Unfit

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
# ISO 8601 as far as people write it; what is finer than a microsecond is cut off, as Spark does.
_TIMESTAMP: Final = re.compile(
    _DATE.pattern + r"(?:[T ]([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?)?"
    r"(?:Z|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
# The calendar repeats itself after so many days; Python's begins a year too late for year 0.
_CYCLE_YEARS: Final = 400
_CYCLE_DAYS: Final = 146_097
_HOURS, _MINUTES, _SECONDS = 24, 60, 60
_MICROSECONDS: Final = 1_000_000
LONG_MAX: Final = 2**63 - 1
# Digits of the largest LONG. Python takes long texts apart in quadratic time.
_DIGITS_MAX: Final = 19
_INTEGER_BITS: Final[dict[type[DataType], int]] = {
    ByteType: 8,
    ShortType: 16,
    IntegerType: 32,
    LongType: 64,
}


def from_text(data_type: DataType) -> Callable[[str], object]:
    """What reads a text as this type."""
    bits = _INTEGER_BITS.get(type(data_type))
    if bits is not None:
        return partial(integer, bits=bits)
    match data_type:
        case BooleanType():
            return boolean
        case FloatType():
            return single
        case DoubleType():
            return double
        case DecimalType():
            return partial(decimal, precision=data_type.precision, scale=data_type.scale)
        case DateType():
            return day
        case TimestampType() | TimestampNTZType():
            return microseconds
    assert isinstance(data_type, StringType), data_type
    return text


def text(content: str) -> str:
    """The text, if it is one: escapes in JSON can leave half a surrogate pair."""
    content.encode()
    return content


def boolean(content: str) -> bool:
    lower = content.lower()
    if lower not in ("true", "false"):
        raise Unfit
    return lower == "true"


def integer(content: str, bits: int) -> int:
    if not _INTEGER.fullmatch(content):
        raise Unfit
    digits = content.lstrip("+-").lstrip("0")
    if len(digits) > _DIGITS_MAX:
        raise Unfit
    number = int(content)
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise Unfit
    return number


def double(content: str) -> float:
    if not _NUMBER.fullmatch(content):
        raise Unfit
    return _finite(float(content))


def single(content: str) -> float:
    """Rounded once, from the text: by way of a double it could come out otherwise."""
    if not _NUMBER.fullmatch(content):
        raise Unfit
    number: float = pa.scalar(content).cast(pa.float32()).as_py()
    return _finite(number)


def decimal(content: str, precision: int, scale: int) -> Decimal:
    """Rounded half up to the scale, as Spark does; too many digits before the point do not fit."""
    if not _NUMBER.fullmatch(content):
        raise Unfit
    context = Context(prec=precision, rounding=ROUND_HALF_UP)
    try:
        return Decimal(content).quantize(Decimal(1).scaleb(-scale), context=context)
    except InvalidOperation:
        raise Unfit from None


def day(content: str) -> int:
    """Days since 1970."""
    match = _DATE.fullmatch(content)
    if match is None:
        raise Unfit
    return _days(match)


def microseconds(content: str) -> int:
    """Microseconds since 1970; a time without a zone is taken as UTC."""
    match = _TIMESTAMP.fullmatch(content)
    if match is None:
        raise Unfit
    hour, minute, second = (int(match[group] or 0) for group in (4, 5, 6))
    offset_hour, offset_minute = (int(match[group] or 0) for group in (9, 10))
    if (
        max(hour, offset_hour) >= _HOURS
        or max(minute, offset_minute) >= _MINUTES
        or second >= _SECONDS
    ):
        raise Unfit
    minutes = (_days(match) * _HOURS + hour) * _MINUTES + minute
    offset_minutes = offset_hour * _MINUTES + offset_minute
    minutes += offset_minutes if match[8] == "-" else -offset_minutes
    fraction = int((match[7] or "0")[:6].ljust(6, "0"))
    return (minutes * _SECONDS + second) * _MICROSECONDS + fraction


def base64(content: str) -> bytes:
    return binascii.a2b_base64(content, strict_mode=True)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise Unfit
    return number


def _days(match: re.Match[str]) -> int:
    year, month, day_of_month = int(match[1]), int(match[2]), int(match[3])
    if year == 0:
        return date(_CYCLE_YEARS, month, day_of_month).toordinal() - _CYCLE_DAYS - _EPOCH_DAY
    return date(year, month, day_of_month).toordinal() - _EPOCH_DAY
