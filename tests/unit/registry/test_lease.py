"""A broker holds itself for the controller for less than its session, from the sending on."""

from __future__ import annotations

from penstock.registry.lease import Lease
from tests.kit.broker.running import ManualClock


def test_it_begins_with_the_sending_and_is_shorter_than_the_session() -> None:
    """R-REP-4, R-REP-5: the answer may have been long on its way, while the session's time ran."""
    clock = ManualClock()
    lease = Lease(clock)
    attempt = lease.begin()
    clock.time_ms += 1_500
    lease.extend(attempt, 6_000)
    assert is_held(lease)
    clock.time_ms += 2_499
    assert is_held(lease)
    clock.time_ms += 2
    assert not is_held(lease), "4,000 ms after it was sent"


def test_an_answer_that_took_too_long_is_worth_nothing() -> None:
    clock = ManualClock()
    lease = Lease(clock)
    attempt = lease.begin()
    clock.time_ms += 5_000
    lease.extend(attempt, 6_000)
    assert not is_held(lease)


def test_what_was_sent_before_the_end_does_not_bring_it_back() -> None:
    lease = Lease(ManualClock())
    attempt = lease.begin()
    lease.extend(attempt, 6_000)
    lease.end()
    assert not is_held(lease)
    lease.extend(attempt, 6_000)
    assert not is_held(lease)
    lease.extend(lease.begin(), 6_000)
    assert is_held(lease)


def test_an_older_answer_does_not_shorten_it() -> None:
    clock = ManualClock()
    lease = Lease(clock)
    older = lease.begin()
    clock.time_ms += 1_000
    lease.extend(lease.begin(), 6_000)
    lease.extend(older, 6_000)
    clock.time_ms += 3_999
    assert is_held(lease)


def is_held(lease: Lease) -> bool:
    return lease.is_held
