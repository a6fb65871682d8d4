"""A disk that refuses is told of by the change and by the minute, not by the attempt."""

from __future__ import annotations

import pytest

from penstock.model.errors import DiskFull
from penstock.replication.complaints import Complaints

FULL = DiskFull("The disk is full.")


def test_one_line_each_for_the_beginning_a_minute_and_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    complaints = Complaints("orders-0")
    complaints.taken(0)
    assert caplog.messages == []
    for now_ms in range(1_000, 122_000, 100):
        complaints.refused(FULL, now_ms)
    complaints.taken(122_000)
    complaints.taken(122_100)
    complaints.refused(FULL, 122_200)
    assert caplog.messages == [
        "orders-0 cannot be written, and is tried again: The disk is full.",
        "orders-0 still cannot be written after 60 s and 601 attempts: The disk is full.",
        "orders-0 still cannot be written after 120 s and 1201 attempts: The disk is full.",
        "orders-0 can be written again, after 121 s and 1210 attempts",
        "orders-0 cannot be written, and is tried again: The disk is full.",
    ]
