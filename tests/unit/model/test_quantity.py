"""Lengths of time as people write them, in commands and in pipelines."""

from __future__ import annotations

import pytest

from penstock.model.quantity import parse_duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("500", 500),
        ("500ms", 500),
        ("10s", 10_000),
        ("5 seconds", 5000),
        ("0.25s", 250),
        ("-0.25s", -250),
        ("5m", 300_000),
        ("1 minute", 60_000),
        ("2h", 7_200_000),
        (" 1 Day ", 86_400_000),
        ("9007199254740993", 9_007_199_254_740_993),  # a float would make it even
    ],
)
def test_lengths_of_time(text: str, expected_ms: int) -> None:
    assert parse_duration_ms(text) == expected_ms


@pytest.mark.parametrize(
    "text", ["", "ms", "five seconds", "5 secnds", "1 2s", "5MiB", "\u0665s", "9" * 30 + "s"]
)
def test_what_is_none(text: str) -> None:
    assert parse_duration_ms(text) is None


def test_a_unit_may_be_needed() -> None:
    assert parse_duration_ms("5", unit_needed=True) is None
    assert parse_duration_ms("5s", unit_needed=True) == 5000
