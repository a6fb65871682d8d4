"""When something happened, by a client's own clock."""

from __future__ import annotations

import pytest

from penstock.broker.delivery.push.client_clock import ClientClock


def test_what_the_client_said_is_counted_on_from() -> None:
    clock = ClientClock()
    assert clock.at_ms(100.0) == 0
    clock.said(5_000, 100.0)
    assert clock.at_ms(100.0) == 5_000
    assert clock.at_ms(101.5) == 6_500
    assert clock.at_ms(99.9995) == 4_999
    clock.said(9_000, 104.0)
    assert clock.at_ms(104.0) == 9_000


def test_a_client_that_was_idle_for_long_is_not_told_of_the_past() -> None:
    """Its clock may have gained a minute in a week."""
    clock = ClientClock()
    clock.said(1, 0.0)
    week_s = 7 * 86_400.0
    assert clock.at_ms(week_s) > (week_s + 60) * 1000


@pytest.mark.parametrize("said_ms", [0, -1, -(2**63), 2**53, 2**63 - 1])
def test_what_no_clock_shows_is_not_taken(said_ms: int) -> None:
    clock = ClientClock()
    clock.said(said_ms, 100.0)
    assert clock.at_ms(100.0) == 0
    clock.said(5_000, 100.0)
    clock.said(said_ms, 200.0)
    assert clock.at_ms(100.0) == 5_000
    # One who has just started his machine, and a lease that is older.
    assert clock.at_ms(0.0) == 1
