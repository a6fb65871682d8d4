"""Which segments may go."""

from __future__ import annotations

from penstock.storage.retention import NO_LIMIT, choose
from penstock.storage.segment import SegmentInfo

NOW_MS = 1_000_000


def segments(*timestamps_ms: int, active: bool = True) -> list[SegmentInfo]:
    """Segments of 10 messages and 100 bytes each, with these newest timestamps."""
    return [
        SegmentInfo(
            first_offset=10 * number,
            last_offset=10 * number + 9,
            size_bytes=100,
            max_timestamp_ms=timestamp_ms,
            sealed=not active or number < len(timestamps_ms) - 1,
        )
        for number, timestamp_ms in enumerate(timestamps_ms)
    ]


def chosen(found: list[SegmentInfo], *, ms: int = NO_LIMIT, size: int = NO_LIMIT) -> int:
    return choose(found, now_ms=NOW_MS, retention_ms=ms, retention_bytes=size)


def test_without_limits_everything_stays() -> None:
    assert chosen(segments(1, 2, 3)) == 0


def test_by_time_up_to_the_first_that_is_young_enough() -> None:
    old = NOW_MS - 501
    young = NOW_MS - 500
    assert chosen(segments(old, old, young, old, young), ms=500) == 20
    assert chosen(segments(young, old), ms=500) == 0


def test_by_size_from_the_oldest() -> None:
    assert chosen(segments(1, 2, 3, 4), size=400) == 0
    assert chosen(segments(1, 2, 3, 4), size=399) == 10
    assert chosen(segments(1, 2, 3, 4), size=150) == 30


def test_either_limit_is_enough() -> None:
    old = NOW_MS - 501
    assert chosen(segments(old, NOW_MS, NOW_MS, NOW_MS), ms=500, size=250) == 20


def test_the_active_segment_is_never_chosen() -> None:
    assert chosen(segments(1, 2, 3), ms=0, size=0) == 20
    assert chosen(segments(1), ms=0, size=0) == 0


def test_all_sealed_may_go() -> None:
    assert chosen(segments(1, 2, active=False), ms=0) == 20


def test_without_a_timestamp_nothing_is_too_old() -> None:
    assert chosen(segments(-1, 2, 3), ms=10) == 0
    assert chosen(segments(-1, 2, 3), size=250) == 10
