"""Sizes, lengths of time and moments as people write them."""

from __future__ import annotations

import pytest

from penstock.cli.quantities import (
    duration_ms,
    moment_ms,
    moment_text,
    size_bytes,
    size_text,
)
from penstock.model.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("65536", 65536),
        ("-1", -1),
        ("10B", 10),
        ("64KiB", 65536),
        ("64 kib", 65536),
        ("1GB", 1_000_000_000),
        ("1.5MiB", 1_572_864),
        ("-1.5KB", -1500),
        ("8TiB", 8 * 2**40),
        ("9007199254740993", 9_007_199_254_740_993),  # a float would make it even
    ],
)
def test_sizes(text: str, expected: int) -> None:
    assert size_bytes(text) == expected


@pytest.mark.parametrize(
    "text", ["", "MiB", "5 parsecs", "1e9", "0x10", "5ms", "1,5MB", "--5", "1 2"]
)
def test_what_is_no_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="64MiB"):
        size_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("500", 500),
        ("500ms", 500),
        ("10s", 10_000),
        ("0.25s", 250),
        ("5m", 300_000),
        ("5min", 300_000),
        ("72h", 259_200_000),
        ("7d", 604_800_000),
        ("-1", -1),
    ],
)
def test_lengths_of_time(text: str, expected: int) -> None:
    assert duration_ms(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "10 fortnights", "5MiB", "ms"])
def test_what_is_no_length_of_time_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidRequest, match="72h"):
        duration_ms(text)


def test_moments() -> None:
    assert moment_ms("10m-ago", now_ms=1_000_000) == 400_000
    assert moment_ms("1970-01-01T00:00:01Z", now_ms=0) == 1000
    assert moment_ms("1970-01-01T01:00:00.250+01:00", now_ms=0) == 250
    with pytest.raises(InvalidRequest, match="10m-ago"):
        moment_ms("yesterday", now_ms=0)
    with pytest.raises(InvalidRequest, match="length of time"):
        moment_ms("long-ago", now_ms=0)


def test_a_moment_is_shown_in_utc_and_reads_back() -> None:
    assert moment_text(1_767_225_600_123) == "2026-01-01T00:00:00.123Z"
    assert moment_ms(moment_text(1_767_225_600_123), now_ms=0) == 1_767_225_600_123


def test_a_time_that_no_calendar_has_is_shown_as_its_number() -> None:
    """A producer may stamp anything of 64 bits."""
    assert moment_text(2**63 - 1) == str(2**63 - 1)
    assert moment_text(-(2**63)) == str(-(2**63))


def test_sizes_for_people() -> None:
    texts = [size_text(size) for size in (0, 1023, 1024, 1536 * 1024, 5 * 2**30, 2**50)]
    assert texts == ["0 B", "1023 B", "1.0 KiB", "1.5 MiB", "5.0 GiB", "1024.0 TiB"]
