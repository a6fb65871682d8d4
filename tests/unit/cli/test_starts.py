"""Where to read from: each way of saying it, and what is none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from penstock.cli.starts import parse_start
from penstock.model.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", "earliest"),
        ("end", "latest"),
        ("0", 0),
        ("20260131", 20_260_131),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("10s-ago", datetime.fromtimestamp(90, UTC)),
    ],
)
def test_starts(text: str, expected: object) -> None:
    assert parse_start(text, now_ms=100_000) == expected


@pytest.mark.parametrize("text", ["", "-1", "start", "1.5", "٣"])
def test_what_is_no_start_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="10m-ago"):
        parse_start(text, now_ms=0)
