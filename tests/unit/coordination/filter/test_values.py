"""What bytes mean: numbers as SQL has them, truths, and everything else unknown."""

from __future__ import annotations

import math

import pytest

from penstock.coordination.filter.values import Number, bounded, calculated, number_of, truth_of


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"0", 0),
        (b"12", 12),
        (b"-12", -12),
        (b"+12", 12),
        (b"007", 7),
        (b"1.5", 1.5),
        (b"-.5", -0.5),
        (b"5.", 5.0),
        (b"1e3", 1000.0),
        (b"2E-1", 0.2),
        (b"9223372036854775807", 2**63 - 1),
        (b"9223372036854775808", float(2**63)),
        (b"-9223372036854775808", -(2**63)),
        (b"1e999", math.inf),
    ],
)
def test_decimal_ascii_is_a_number(content: bytes, number: Number) -> None:
    found = number_of(content)
    assert found == number
    assert type(found) is type(number)


@pytest.mark.parametrize(
    "content",
    [b"", b" 1", b"1 ", b"1_000", b"0x10", b"nan", b"inf", b"1e", b".", b"-", b"1,5", b"\xd9\xa3"],
)
def test_nothing_else_is(content: bytes) -> None:
    """Not even what Python's own functions would read."""
    assert number_of(content) is None


def test_what_is_too_long_is_not_even_read() -> None:
    """R-DEL-12: a value costs no more than its filter may."""
    assert number_of(b"1" * 64) == float("1" * 64)
    assert number_of(b"1" * 65) is None
    assert number_of(b"1" * 10_000_000) is None


@pytest.mark.parametrize(
    ("content", "truth"),
    [(b"true", True), (b"FALSE", False), (b"True", True), (b"1", None), (b"trueish", None)],
)
def test_truths(content: bytes, truth: bool | None) -> None:
    assert truth_of(content) is truth


@pytest.mark.parametrize(
    ("left", "sign", "right", "result"),
    [
        (7, "/", 2, 3),
        (-7, "/", 2, -3),
        (7, "/", -2, -3),
        (7.0, "/", 2, 3.5),
        (7, "/", 0, None),
        (7, "/", 0.0, None),
        (2**63 - 1, "+", 1, float(2**63)),
        (-(2**63), "/", -1, float(2**63)),
        (2**62, "*", 2**62, float(2**124)),
        (1e308, "*", 10, math.inf),
        (math.inf, "-", math.inf, None),
        (0, "*", math.inf, None),
    ],
)
def test_arithmetic_stays_within_64_bits(
    left: Number, sign: str, right: Number, result: Number | None
) -> None:
    found = calculated(sign, left, right)
    assert found == result
    assert type(found) is type(result)


def test_no_number_is_unknown() -> None:
    assert bounded(math.nan) is None
