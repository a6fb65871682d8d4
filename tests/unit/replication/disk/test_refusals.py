"""A disk that refuses is told of by the change and by the minute, not by the attempt."""

from __future__ import annotations

import pytest

from penstock.model.errors import DiskFull
from penstock.replication.disk.refusals import Refusals

FULL = DiskFull("The disk is full.")


def test_one_line_each_for_the_beginning_a_minute_and_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals("The disk of /data")
    refusals.taken(0)
    assert caplog.messages == []
    for now_ms in range(1_000, 122_000, 100):
        refusals.refused(FULL, now_ms)
    assert refusals.current(122_000) is FULL
    refusals.taken(125_000)
    refusals.taken(125_100)
    assert refusals.current(125_100) is None
    refusals.refused(FULL, 160_000)
    assert caplog.messages == [
        "The disk of /data cannot be written, and is tried again: The disk is full.",
        "The disk of /data still cannot be written after 60 s and 601 attempts: The disk is full.",
        "The disk of /data still cannot be written after 120 s and 1201 attempts: The disk is "
        "full.",
        "The disk of /data can be written again, after 124 s and 1210 attempts",
        "The disk of /data cannot be written, and is tried again: The disk is full.",
    ]


def test_a_disk_that_takes_what_is_small_and_refuses_what_is_large_is_not_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Refusals("The disk")
    for now_ms in range(0, 60_000, 1_000):
        refusals.refused(FULL, now_ms)
        refusals.taken(now_ms + 500)
        assert refusals.current(now_ms + 999) is FULL
    assert caplog.messages == ["The disk cannot be written, and is tried again: The disk is full."]
    # It is, when so long nothing was refused.
    refusals.taken(61_999)
    assert refusals.current(61_999) is FULL
    assert refusals.current(62_000) is None
    refusals.taken(62_000)
    assert caplog.messages[1:] == ["The disk can be written again, after 62 s and 60 attempts"]
    refusals.refused(FULL, 62_100)
    assert refusals.current(62_100) is FULL


def test_what_nobody_tries_any_more_says_nothing_of_now() -> None:
    refusals = Refusals()
    refusals.refused(FULL, 1_000)
    assert refusals.current(61_000) is FULL
    assert refusals.current(61_001) is None
    # Nor does a success long before say anything.
    refusals.taken(70_000)
    refusals.refused(FULL, 200_000)
    assert refusals.current(204_000) is FULL
