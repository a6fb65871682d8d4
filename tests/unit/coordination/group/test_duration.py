"""Durations as Kafka's settings have them."""

from __future__ import annotations

import pytest

from penstock.coordination.group.duration import duration_ms

HOUR_MS = 60 * 60 * 1000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("PT1H", HOUR_MS),
        ("PT0S", 0),
        ("P2D", 48 * HOUR_MS),
        ("p1dt2h3m4.005s", 26 * HOUR_MS + 3 * 60_000 + 4_005),
        ("PT0.0019S", 1),
        ("PT1.S", 1_000),
        ("+PT+5M", 300_000),
        ("P106751991167DT7H12M55.807S", 2**63 - 1),
        # Neither is a duration; or it is a negative one, or one that nobody means.
        ("", None),
        ("P", None),
        ("PT", None),
        ("P1DT", None),
        ("1h", None),
        ("PT-1H", None),
        ("-PT1H", None),
        ("P1M", None),
        ("PT1H ", None),
        ("PT1H\n", None),
        ("PT٣H", None),
        (f"P{'9' * 13}D", None),
        ("P106751991167DT7H12M55.808S", None),
        (f"P{'9' * 12}D", None),
    ],
)
def test_iso_8601(text: str, expected_ms: int | None) -> None:
    assert duration_ms(text) == expected_ms
