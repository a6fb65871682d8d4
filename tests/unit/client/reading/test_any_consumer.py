"""A consumer of any kind begins once, however many read, and ends once, whatever goes wrong."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.reading.any_consumer import AnyConsumer, check_count
from penstock.model.errors import ClientClosed, InvalidRequest, TimedOut
from penstock.model.ids import TopicPartition
from penstock.records import Message


class Quiet(AnyConsumer):
    """To which nothing comes."""

    def __init__(self, *problems: Exception) -> None:
        self.story: list[str] = []
        self.forgotten: list[AnyConsumer] = []
        super().__init__(self.forgotten.append)
        self._problems = list(problems)

    @property
    def partitions(self) -> list[TopicPartition]:
        return []

    async def next_hand(self) -> list[Message]:
        await asyncio.Event().wait()
        return []

    async def fetch(self, timeout_s: float | None) -> list[Message] | None:
        return await self._in_time(timeout_s, self.next_hand)

    async def _begin(self) -> None:
        self.story.append("begins")
        await asyncio.sleep(0)
        if self._problems:
            raise self._problems.pop()

    async def _end(self) -> None:
        self.story.append("ends")
        if self._problems:
            raise self._problems.pop()


async def test_it_begins_once_however_many_read() -> None:
    consumer = Quiet()
    assert await asyncio.gather(*(consumer.fetch(0) for _ in range(3))) == [None] * 3
    async with consumer as entered:
        assert entered is consumer
    await consumer.close()
    assert consumer.story == ["begins", "ends"]
    assert consumer.forgotten == [consumer]
    with pytest.raises(ClientClosed):
        await consumer.fetch(0)


async def test_where_it_could_not_begin_reading_tries_again_and_entering_ends_it() -> None:
    consumer = Quiet(TimedOut(), TimedOut())
    with pytest.raises(TimedOut):
        await consumer.fetch(0)
    with pytest.raises(TimedOut):
        await consumer.__aenter__()
    assert consumer.story == ["begins", "begins", "ends"]
    with pytest.raises(ClientClosed):
        await consumer.start()


async def test_it_is_forgotten_though_its_end_fails() -> None:
    consumer = Quiet(TimedOut())
    with pytest.raises(TimedOut):
        await consumer.close()
    assert consumer.forgotten == [consumer]


def test_who_wants_messages_wants_one_at_least() -> None:
    check_count(None)
    check_count(1)
    with pytest.raises(InvalidRequest, match="max_messages is 0"):
        check_count(0)
