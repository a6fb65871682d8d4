"""The pace of a replay."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipeline.replay import Pace


def test_chunks_wait_for_their_time() -> None:
    pace = Pace(100)
    assert pace.wait_s(0) == 0
    pace.begin(200, 0)
    assert pace.wait_s(0.5) == 1.5
    pace.begin(50, 2)
    assert pace.wait_s(2) == 0.5
    assert Pace(None).wait_s(0) == 0


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
