"""Lengths of time as pipelines write them."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.interval import interval_ms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", 5000),
        ("1 minute", 60_000),
        ("500ms", 500),
        ("2h", 7_200_000),
        (" 1 Day ", 86_400_000),
    ],
)
def test_intervals(text: str, expected: int) -> None:
    assert interval_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["", "5", "five seconds", "-1 s", "5 secnds", "1.5 s", "9" * 30 + "s"]
)
def test_what_is_none(text: str) -> None:
    with pytest.raises(InvalidConfig, match="write it as 5 seconds"):
        interval_ms(text)
