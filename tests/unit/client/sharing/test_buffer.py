"""What waits for the reader: how much may, and that nothing is handed over too late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from penstock.client.reading.supply import Credit
from penstock.client.sharing.buffer import Hold, LeaseBuffer
from penstock.model.ids import TopicPartition
from penstock.records import Message, decode_messages
from tests.kit.broker.running import batch

JOBS = TopicPartition("jobs", 0)


class Stream:
    """Counts the credit that it gets back."""

    def __init__(self) -> None:
        self.messages = 0
        self.size_bytes = 0

    def give_back(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.size_bytes += size_bytes

    def ping(self, answered: Callable[[], None]) -> None: ...


def hold(stream: Stream, paid: int, age_s: float = 0.0) -> Hold:
    """Of ten seconds, for which so many messages were paid, of ten bytes together."""
    leased_at_s = asyncio.get_running_loop().time() - age_s
    return Hold(JOBS, (), leased_at_s, 10.0, Credit(stream, paid, 10))


def messages(count: int) -> list[Message]:
    return decode_messages(batch([b"x"] * count), "jobs", 0, 0)


def buffer(prefetch: int = 10) -> LeaseBuffer:
    return LeaseBuffer(prefetch, {})


async def test_messages_are_taken_in_order_and_make_room() -> None:
    """R-DEL-6: what waits is bounded."""
    waiting, stream = buffer(), Stream()
    waiting.add_leased(hold(stream, 3), messages(2))
    assert waiting.room == 8
    first, second = waiting.take_leased(), waiting.take_leased()
    assert first is not None
    assert second is not None
    assert [message.offset for _, message in (first, second)] == [0, 1]
    assert waiting.room == 10
    assert waiting.take_leased() is None
    assert (stream.messages, stream.size_bytes) == (3, 10), "once, also for what is not there"


async def test_a_delivery_of_nothing_gives_its_credit_back_at_once() -> None:
    waiting, stream = buffer(), Stream()
    waiting.add_leased(hold(stream, 3), [])
    assert (stream.messages, stream.size_bytes) == (3, 10)


async def test_what_is_too_late_is_not_handed_over(caplog: pytest.LogCaptureFixture) -> None:
    """R-DEL-3: it may be another's by now."""
    waiting, old, fresh = buffer(), Stream(), Stream()
    waiting.add_leased(hold(old, 2, age_s=9.5), messages(2))
    waiting.add_leased(hold(fresh, 1), messages(1))
    taken = waiting.take_leased()
    assert taken is not None
    assert taken[0].came_by(fresh)
    assert (old.messages, fresh.messages) == (2, 1)
    assert "lower prefetch" in caplog.text


async def test_what_is_gone_is_withdrawn() -> None:
    waiting, gone, kept = buffer(), Stream(), Stream()
    waiting.add_leased(hold(gone, 2), messages(2))
    waiting.add_leased(hold(kept, 1), messages(1))
    assert len(waiting.withdraw(lambda one: one.came_by(gone))) == 2
    assert (gone.messages, kept.messages, len(waiting)) == (2, 0, 1)
