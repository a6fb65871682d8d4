"""Who is told of failures: every flush that waited, or the next one; nobody twice."""

from __future__ import annotations

import pytest

from penstock.client.errors import DeliveryFailed
from penstock.client.producing.reports import Reports
from penstock.model.errors import BatchTooLarge, TimedOut
from penstock.model.ids import TopicPartition

FIRST = TopicPartition("orders", 0)
SECOND = TopicPartition("orders", 1)


def counts(error: DeliveryFailed) -> dict[int, int]:
    return {failure.partition: failure.message_count for failure in error.failures}


def test_failures_gather_until_the_next_flush_and_are_told_once() -> None:
    reports = Reports()
    last = TimedOut()
    reports.add(FIRST, 2, BatchTooLarge())
    reports.add(SECOND, 1, BatchTooLarge())
    with pytest.raises(DeliveryFailed) as raised, reports.flush():
        reports.add(FIRST, 3, last)
    assert counts(raised.value) == {0: 5, 1: 1}
    assert raised.value.failures[0].cause is last
    with reports.flush():
        pass


def test_every_flush_under_way_is_told() -> None:
    """The invariant: no flush ends well beside a message that was lost while it waited."""
    reports = Reports()
    first, second = reports.flush(), reports.flush()
    first.__enter__()
    second.__enter__()
    reports.add(FIRST, 1, TimedOut())
    for flush in (first, second):
        with pytest.raises(DeliveryFailed) as raised:
            flush.__exit__(None, None, None)
        assert counts(raised.value) == {0: 1}
    with reports.flush():
        pass


def test_a_flush_that_was_given_up_has_told_nobody() -> None:
    reports = Reports()
    reports.add(FIRST, 1, TimedOut())
    flush = reports.flush()
    flush.__enter__()
    reports.add(FIRST, 1, TimedOut())
    assert not flush.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    with pytest.raises(DeliveryFailed) as raised, reports.flush():
        pass
    assert counts(raised.value) == {0: 2}
