"""How far a write raises the ceiling."""

from __future__ import annotations

from penstock.coordination.delivery.ceiling import Ceiling


def test_nobody_asks_for_a_ceiling_while_nobody_leases() -> None:
    ceiling = Ceiling(10_000)
    assert ceiling.wanted(50, 0) is None
    assert ceiling.next(50, 0) == 50
    assert ceiling.next(50, 80) == 80


def test_a_write_covers_what_was_asked_for_and_what_comes_meanwhile() -> None:
    ceiling = Ceiling(10_000)
    ceiling.asked(500)
    assert ceiling.wanted(0, 0) == 600
    ceiling.leased(500, 500)
    assert ceiling.wanted(600, 0) == 500 + 1_000
    ceiling.written()
    ceiling.written()
    assert ceiling.next(600, 0) == 600


def test_it_is_asked_for_when_half_of_what_is_ahead_is_used() -> None:
    ceiling = Ceiling(10_000)
    ceiling.leased(49, 49)
    assert ceiling.wanted(100, 0) is None
    ceiling.leased(51, 2)
    assert ceiling.wanted(100, 0) == 153


def test_it_leaves_room_in_the_window() -> None:
    ceiling = Ceiling(10_000)
    ceiling.leased(5_000, 5_000)
    assert ceiling.next(5_000, 0) == 7_500
    ceiling.asked(9_999)
    assert ceiling.next(5_000, 0) == 10_000
    assert ceiling.wanted(10_000, 0) is None


def test_the_smallest_window_has_a_ceiling() -> None:
    ceiling = Ceiling(1)
    ceiling.asked(1)
    assert ceiling.wanted(0, 0) == 1
