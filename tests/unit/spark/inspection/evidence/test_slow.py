"""Who is slow, and beside whom (R-SPK-3)."""

from __future__ import annotations

from penstock.spark.inspection.evidence.slow import Timed, slow_among
from penstock.spark.inspection.thresholds import DEFAULTS

LATE = Timed(7, {30_000: 100})


def test_a_producer_far_later_than_the_others_is_slow() -> None:
    assert slow_among([LATE], [(20, 900), (30_000, 100)], DEFAULTS) == [(LATE, 20)]


def test_where_everybody_is_late_nobody_is_slow() -> None:
    everybody = [(28_000, 900), (30_000, 100)]
    assert slow_among([LATE], everybody, DEFAULTS) == []


def test_where_the_late_ones_are_the_most_nobody_is_slow() -> None:
    """Most of a topic late means a wrong clock, or a replay, not a slow producer."""
    assert slow_among([LATE], [(20, 90), (30_000, 100)], DEFAULTS) == []


def test_a_few_messages_say_nothing() -> None:
    few = Timed(7, {30_000: DEFAULTS.slow_messages_min - 1})
    assert slow_among([few], [(20, 900), (30_000, 9)], DEFAULTS) == []


def test_one_late_message_of_many_does_not_make_a_producer_slow() -> None:
    mostly_quick = Timed(7, {15: 99, 30_000: 1})
    assert slow_among([mostly_quick], [(15, 999), (30_000, 1)], DEFAULTS) == []
