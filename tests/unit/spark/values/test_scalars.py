"""One text as one value."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial

import pytest

from penstock.spark.values import scalars

Read = Callable[[str], object]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def refuses(read: Read, content: str) -> bool:
    """Each in its own way, and none with another error than this."""
    try:
        read(content)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("content", "bits", "number"),
    [("0", 8, 0), ("-128", 8, -128), ("+127", 8, 127), ("007", 64, 7), ("-0", 32, 0)],
)
def test_integers(content: str, bits: int, number: int) -> None:
    assert scalars.integer(content, bits) == number


@pytest.mark.parametrize("content", ["128", "", "1.0", "1e2", "0x1", "1_0", "٣", " 1", "9" * 5000])
def test_no_integers(content: str) -> None:
    assert refuses(partial(scalars.integer, bits=8), content)


def test_floats_are_rounded_once() -> None:
    assert scalars.double("1e2") == 100.0
    assert scalars.single("0.1") == 0.10000000149011612
    # By way of a double it would be the one above.
    assert scalars.single("1.00000017881393432617187499") == 1.00000011920928955078125
    for content in ("nan", "inf", "1e400", "1_0", "", "."):
        assert refuses(scalars.double, content)
        assert refuses(scalars.single, content)
    assert refuses(scalars.single, "1e39")


@pytest.mark.parametrize(
    ("content", "number"),
    [("1", "1.00"), ("1.005", "1.01"), ("-1.005", "-1.01"), ("999.99", "999.99"), ("1e-9", "0.00")],
)
def test_decimals_are_rounded_half_up(content: str, number: str) -> None:
    found = scalars.decimal(content, 5, 2)
    assert (found, str(found)) == (Decimal(number), number)


@pytest.mark.parametrize("content", ["1000", "999.995", "1e999999999999", "NaN", "x", ""])
def test_decimals_that_do_not_fit(content: str) -> None:
    assert refuses(partial(scalars.decimal, precision=5, scale=2), content)


@pytest.mark.parametrize(
    ("content", "moment"),
    [
        ("2020-02-29", "2020-02-29T00:00:00+00:00"),
        ("2020-02-29T12", "2020-02-29T12:00:00+00:00"),
        ("2020-02-29 12:34", "2020-02-29T12:34:00+00:00"),
        ("2020-02-29T12:34:56.7Z", "2020-02-29T12:34:56.700000+00:00"),
        ("2020-02-29T12:34:56.123456789", "2020-02-29T12:34:56.123456+00:00"),
        ("2020-02-29T12:34:56+02:00", "2020-02-29T10:34:56+00:00"),
        ("2020-02-29T12:34:56-0130", "2020-02-29T14:04:56+00:00"),
        ("1969-12-31T23:59:59.999999Z", "1969-12-31T23:59:59.999999+00:00"),
    ],
)
def test_timestamps(content: str, moment: str) -> None:
    expected = (datetime.fromisoformat(moment) - EPOCH).total_seconds() * 1_000_000
    assert scalars.microseconds(content) == round(expected)


@pytest.mark.parametrize(
    "content",
    ["2020-02-30", "2020-2-3", "20200203", "2020-02-03T24:00", "2020-02-03T12:60", "12:00",
     "2020-02-03T12:00:60", "2020-02-03T12:00+24", "2020-02-03Z", "2020-02-03T12:00 Z", ""],
)  # fmt: skip
def test_no_timestamps(content: str) -> None:
    assert refuses(scalars.microseconds, content)


def test_dates() -> None:
    assert scalars.day("1970-01-02") == 1
    assert scalars.day("0000-01-01") == -719528
    for content in ("2019-02-29", "2020-01-01T00:00", ""):
        assert refuses(scalars.day, content)


def test_base64_and_booleans_and_text() -> None:
    assert scalars.base64("YWI=") == b"ab"
    for content in ("YWI", "Y WI=", "é", "=YWI"):
        assert refuses(scalars.base64, content)
    assert [scalars.boolean(content) for content in ("true", "FALSE")] == [True, False]
    assert refuses(scalars.boolean, "1")
    assert scalars.text("é") == "é"
    assert refuses(scalars.text, "\ud800")
