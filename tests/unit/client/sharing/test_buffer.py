"""What waits for the reader: how much may, and that nothing is handed over too late."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.lane import Hold
from penstock.model.errors import PenstockError
from penstock.model.ids import TopicPartition
from penstock.records import Message, decode_messages
from tests.kit.broker.running import batch

JOBS = TopicPartition("jobs", 0)


class CountedHold(Hold):
    __slots__ = ("left_count",)

    def __init__(self, age_s: float = 0.0, lease_s: float = 10.0) -> None:
        super().__init__(JOBS, (), asyncio.get_running_loop().time() - age_s, lease_s)
        self.left_count = 0

    def left(self) -> None:
        self.left_count += 1


def messages(count: int) -> list[Message]:
    return decode_messages(batch([b"x"] * count), "jobs", 0, 0)


def buffer(prefetch: int = 10) -> LeaseBuffer:
    def fail(error: PenstockError) -> None:
        raise error

    return LeaseBuffer(prefetch, None, fail)


async def test_room_is_divided_among_the_lanes() -> None:
    """R-DEL-6: what waits is bounded."""
    waiting = buffer(10)
    assert (waiting.room(), waiting.credit()) == (10, 10)
    waiting.lane_count = 3
    assert (waiting.room(), waiting.credit()) == (3, 3)
    waiting.add(CountedHold(), messages(9))
    assert waiting.room() == 1
    waiting.lane_count = 1000
    assert waiting.credit() == 1


async def test_messages_are_taken_in_order_and_make_room() -> None:
    waiting, hold = buffer(), CountedHold()
    waiting.add(hold, messages(2))
    waiting.has_room.clear()
    assert waiting.take() == (hold, messages(2)[0]) or len(waiting) == 1
    assert waiting.has_room.is_set()
    assert hold.left_count == 1
    assert waiting.take() is not None
    assert waiting.take() is None


async def test_what_is_too_late_is_not_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    """R-DEL-3: it may be another's by now."""
    waiting, old, fresh = buffer(), CountedHold(age_s=9.5), CountedHold()
    waiting.add(old, messages(2))
    waiting.add(fresh, messages(1))
    taken = waiting.take()
    assert taken is not None
    assert taken[0] is fresh
    assert (old.left_count, fresh.left_count) == (2, 1)
    assert "lower prefetch" in caplog.text


async def test_what_is_gone_is_dropped() -> None:
    waiting, gone, kept = buffer(), CountedHold(), CountedHold()
    waiting.add(gone, messages(2))
    waiting.add(kept, messages(1))
    assert len(waiting.drop(lambda hold: hold is gone)) == 2
    assert (gone.left_count, kept.left_count, len(waiting)) == (2, 0, 1)
