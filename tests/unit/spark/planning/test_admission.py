"""How much goes into a batch."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.ids import TopicPartition
from penstock.spark.planning.admission import admit, available_rows

PARTITIONS = [TopicPartition("orders", number) for number in range(12)]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 500)), max_size=12),
    st.none() | st.integers(1, 3_000),
)
def test_the_limit_is_kept_and_used(places: list[tuple[int, int]], rows_max: int | None) -> None:
    """R-SPK-1: rate limits hold exactly."""
    begins = {p: begin for p, (begin, _) in zip(PARTITIONS, places, strict=False)}
    ends = {p: begin + size for p, (begin, size) in zip(PARTITIONS, places, strict=False)}
    admitted = admit(begins, ends, rows_max)
    everything = available_rows(begins, ends)
    expected = everything if rows_max is None else min(rows_max, everything)
    assert available_rows(begins, admitted) == expected
    assert all(begins[p] <= admitted[p] <= ends[p] for p in begins)


def test_shares_are_in_proportion_and_small_ones_get_one() -> None:
    zero, one, two = PARTITIONS[:3]
    admitted = admit({zero: 0, one: 0, two: 0}, {zero: 10_000, one: 1, two: 5_000}, 100)
    assert admitted[one] == 1
    assert 60 <= admitted[zero] <= 70
    assert sum(admitted.values()) == 100


def test_with_fewer_rows_than_partitions_they_take_turns() -> None:
    places = dict.fromkeys(PARTITIONS, 0)
    ends = dict.fromkeys(PARTITIONS, 2)
    seen: list[TopicPartition] = []
    while places != ends:
        admitted = admit(places, ends, 5)
        seen += [partition for partition in PARTITIONS if admitted[partition] > places[partition]]
        places = admitted
    assert set(seen[:15]) == set(PARTITIONS)
