"""Waits grow, have a limit, and differ."""

from __future__ import annotations

from penstock.client.concurrency.backoff import Backoff

BACKOFF = Backoff(first_s=0.1, longest_s=1.0)


def test_there_is_no_wait_before_the_first_failure() -> None:
    assert BACKOFF.wait_s(0) == BACKOFF.wait_s(-1) == 0


def test_waits_double_up_to_the_longest() -> None:
    for failures, whole_s in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (10_000, 1.0)):
        for _ in range(50):
            assert whole_s / 2 <= BACKOFF.wait_s(failures) <= whole_s


def test_waits_are_spread() -> None:
    assert len({BACKOFF.wait_s(5) for _ in range(20)}) > 1
