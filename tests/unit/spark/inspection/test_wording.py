"""Numbers and foreign bytes as people read them."""

from __future__ import annotations

import pytest

from penstock.spark.inspection.wording import (
    clock_label,
    counted,
    duration,
    foreign,
    moment,
    printable,
    share,
    short,
    size,
)


def test_numbers() -> None:
    assert counted(1, "message") == "1 message"
    assert counted(2_000, "batch", "batches") == "2,000 batches"
    assert [short(number) for number in (0, 950, 9_999, 12_500, 3_000_000, 2.5e9)] == [
        "0", "950", "9,999", "12.5k", "3M", "2.5G",
    ]  # fmt: skip
    assert [short(number) for number in (0.5, 42.25)] == ["0.5", "42.2"]
    assert [share(part) for part in (0.004, 0.05, 0.333, 1)] == ["0.4 %", "5 %", "33 %", "100 %"]


def test_sizes_and_times() -> None:
    assert [size(number) for number in (0, 512, 1024, 1_500_000, 2**50)] == [
        "0 B", "512 B", "1 KiB", "1.4 MiB", "1024 TiB",
    ]  # fmt: skip
    assert [duration(ms) for ms in (0, 12, 1_500, 90_000, 7_200_000, 4 * 86_400_000)] == [
        "0 ms", "12 ms", "1.5 s", "1.5 min", "2 h", "4 d",
    ]  # fmt: skip
    assert moment(1_790_000_000_000) == "2026-09-21 14:13:20"
    assert moment(None) == "-"


def test_a_time_that_no_calendar_reaches_is_shown_as_it_is() -> None:
    assert moment(2**62) == str(2**62)
    assert clock_label(2**62, 1_000) == str(2**62)


@pytest.mark.parametrize(
    ("width_ms", "label"),
    [
        (20, "13:20.123"),
        (1_000, "14:13:20"),
        (60_000, "14:13"),
        (3_600_000, "09-21 14:13"),
        (86_400_000, "2026-09-21"),
    ],
)
def test_the_label_of_a_time_is_as_fine_as_its_chart(width_ms: int, label: str) -> None:
    assert clock_label(1_790_000_000_123, width_ms) == label


def test_foreign_bytes_are_one_printable_line() -> None:
    assert foreign("größe".encode()) == "größe"
    assert foreign(b"\xff\x00") == r"\xff\x00"
    assert foreign(b"two\nlines\x1b[31m") == r"two\nlines\x1b[31m"
    assert printable("größe \x1b]0;title\x07\u202e \x9b1m") == (
        r"größe \x1b]0;title\x07\u202e \x9b1m"
    ), "only what steers is escaped"
