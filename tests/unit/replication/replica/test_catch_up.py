"""The quota of copies that are far behind: its rate, its burst, and whose turn it is."""

from __future__ import annotations

from itertools import pairwise

from penstock.model.limits import APPEND_BYTES_MAX
from penstock.replication.replica.catch_up import CatchUpQuota

SLICE_MS = 10


def quota() -> CatchUpQuota:
    """Of a slice each ten milliseconds."""
    return CatchUpQuota(APPEND_BYTES_MAX * 1000 // SLICE_MS)


def test_over_any_time_it_gives_its_rate_and_one_burst() -> None:
    bucket = quota()
    given = 0
    for now_ms in range(1_000):
        while bucket.is_open(now_ms):
            bucket.spend(APPEND_BYTES_MAX)
            given += 1
    assert 100 + 4 <= given <= 100 + 5


def test_what_was_not_used_does_not_pile_up() -> None:
    bucket = quota()
    bucket.is_open(0)
    given = 0
    while bucket.is_open(1_000_000):
        bucket.spend(APPEND_BYTES_MAX)
        given += 1
    assert given == 4


def test_those_who_are_refused_come_back_one_after_the_other() -> None:
    bucket = quota()
    while bucket.is_open(0):
        bucket.spend(APPEND_BYTES_MAX)
    turns = [bucket.turn_ms(0) for _ in range(5)]
    assert [later - earlier for earlier, later in pairwise(turns)] == [10] * 4
    assert bucket.is_open(turns[0] + 1)
    assert bucket.turn_ms(10_000) <= 10_002, "what is long past counts no more"
