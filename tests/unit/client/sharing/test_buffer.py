"""What waits for the reader: how much may, and that nothing is handed over too late."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.holds import Hold
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
    return LeaseBuffer(prefetch, {})


async def test_messages_are_taken_in_order_and_make_room() -> None:
    """R-DEL-6: what waits is bounded."""
    waiting, hold = buffer(), CountedHold()
    waiting.add_leased(hold, messages(2))
    assert waiting.room == 8
    first, second = waiting.take_leased(), waiting.take_leased()
    assert first is not None
    assert second is not None
    assert [message.offset for _, message in (first, second)] == [0, 1]
    assert (hold.left_count, waiting.room) == (2, 10)
    assert waiting.take_leased() is None


async def test_what_is_too_late_is_not_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    """R-DEL-3: it may be another's by now."""
    waiting, old, fresh = buffer(), CountedHold(age_s=9.5), CountedHold()
    waiting.add_leased(old, messages(2))
    waiting.add_leased(fresh, messages(1))
    taken = waiting.take_leased()
    assert taken is not None
    assert taken[0] is fresh
    assert (old.left_count, fresh.left_count) == (2, 1)
    assert "lower prefetch" in caplog.text


async def test_what_is_gone_is_withdrawn() -> None:
    waiting, gone, kept = buffer(), CountedHold(), CountedHold()
    waiting.add_leased(gone, messages(2))
    waiting.add_leased(kept, messages(1))
    assert len(waiting.withdraw(lambda hold: hold is gone)) == 2
    assert (gone.left_count, kept.left_count, len(waiting)) == (2, 0, 1)
