"""The pace of a replay, and what is refused before it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.replay import Pace, ReplayOptions, check_offsets


def test_chunks_wait_for_their_time() -> None:
    pace = Pace(100)
    assert pace.wait_s(0) == 0
    pace.begin(200, 0)
    assert pace.wait_s(0.5) == 1.5
    pace.begin(50, 2)
    assert pace.wait_s(2) == 0.5
    assert Pace(None).wait_s(0) == 0


def test_offsets_of_a_partition_that_is_not_there_are_refused() -> None:
    options = ReplayOptions(
        source="orders",
        is_folder=False,
        bootstrap="h:1",
        topic="again",
        offsets={1: (0, None), 7: (0, 10)},
        request={},
    )
    check_offsets(options, range(8))
    with pytest.raises(InvalidConfig, match=r"orders has no partition 7; the last one .* is 1"):
        check_offsets(options, {0, 1})
    with pytest.raises(InvalidConfig, match=r"orders has no partition 1; .* is none"):
        check_offsets(options, set())


@given(
    st.floats(0.1, 1e6),
    st.lists(st.tuples(st.integers(1, 10_000), st.floats(0, 10)), min_size=1, max_size=50),
)
def test_never_more_in_a_span_of_time_than_the_rate_allows(
    rate: float, chunks: list[tuple[int, float]]
) -> None:
    """However long each chunk took: what was lost is not made up for by a burst."""
    pace, now_s = Pace(rate), 0.0
    begun: list[tuple[float, int]] = []
    for rows, took_s in chunks:
        now_s += pace.wait_s(now_s)
        pace.begin(rows, now_s)
        begun.append((now_s, rows))
        now_s += took_s
    for first, (start_s, _) in enumerate(begun):
        total = 0
        for moment_s, rows in begun[first:]:
            # What began before this chunk was done by the rate when this one began.
            assert total <= (moment_s - start_s) * rate * (1 + 1e-6) + 1e-6
            total += rows
