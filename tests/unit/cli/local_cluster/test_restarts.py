"""The waits before a child is started again."""

from __future__ import annotations

from penstock.cli.local_cluster.restarts import Restarts


def test_waits_double_from_one_second_to_thirty() -> None:
    restarts = Restarts()
    assert [restarts.delay_s(0.1) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]


def test_a_minute_of_life_forgives_everything() -> None:
    restarts = Restarts()
    assert [restarts.delay_s(lived) for lived in (0, 59.9, 60, 0)] == [1, 2, 1, 2]
