"""Which segments may go."""

from __future__ import annotations

from penstock.model.removal import Removal
from penstock.storage.log.retention import NO_LIMIT, Outlived, choose, removals
from penstock.storage.segments.segment import SegmentInfo

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
    """The offset before which everything may go."""
    outlived = choose(found, now_ms=NOW_MS, retention_ms=ms, retention_bytes=size)
    assert [one.end_offset for one in outlived] == [10 * n for n in range(1, len(outlived) + 1)]
    return outlived[-1].end_offset if outlived else 0


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


# --- why they went -----------------------------------------------------------------------------


def went(outlived: list[Outlived], first: int, end: int) -> list[tuple[int, int, str, str]]:
    """What is told of a log whose start moved."""
    told = removals(outlived, first, end, now_ms=NOW_MS, retention_ms=500, retention_bytes=250)
    return [(one.first_offset, one.end_offset, one.cause, one.detail) for one in told]


BY_TIME = ("retention_time", "retention_ms is 500")
BY_SIZE = ("retention_size", "retention_bytes is 250")


def test_each_cause_is_told_with_its_limit() -> None:
    """R-SPK-3: which offsets, and why."""
    old = NOW_MS - 501
    found = segments(old, old, NOW_MS, old, NOW_MS, NOW_MS)
    outlived = choose(found, now_ms=NOW_MS, retention_ms=500, retention_bytes=250)
    assert went(outlived, 0, 40) == [(0, 20, *BY_TIME), (20, 30, *BY_SIZE), (30, 40, *BY_TIME)]


def test_only_what_went_is_told() -> None:
    """Records before the log's start were deleted earlier, and a segment may have to stay."""
    outlived = [Outlived(10, "retention_time"), Outlived(20, "retention_time")]
    outlived.append(Outlived(30, "retention_size"))
    assert went(outlived, 7, 20) == [(7, 20, *BY_TIME)]
    assert went(outlived, 20, 30) == [(20, 30, *BY_SIZE)]
    assert went(outlived, 25, 30) == [(25, 30, *BY_SIZE)]
    assert went(outlived, 0, 10) == [(0, 10, *BY_TIME)]
    assert went(outlived, 30, 30) == []
    assert went(outlived, 0, 0) == []
    assert went([], 0, 5) == []


def test_a_removal_says_when() -> None:
    outlived = [Outlived(10, "retention_size")]
    told = removals(outlived, 0, 10, now_ms=7, retention_ms=-1, retention_bytes=5)
    expected = Removal(
        first_offset=0,
        end_offset=10,
        cause="retention_size",
        at_ms=7,
        detail="retention_bytes is 5",
    )
    assert list(told) == [expected]
