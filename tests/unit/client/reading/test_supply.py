"""A partition's leader is found, and found again, until the reader has to be told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, ClassVar, cast

import pytest

from penstock.client.config import ClientConfig
from penstock.client.connection.routes import Routes
from penstock.client.reading.buffer import Buffer
from penstock.client.reading.supply import Feed, Source, Supply
from penstock.model.errors import NotLeader, PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.net.channel import Channel

ORDERS = TopicPartition("orders", 0)


class Leaders:
    """Knows a leader, unless it is to fail."""

    is_closed = False

    def __init__(self) -> None:
        self.failing: list[PenstockError] = []
        self.refreshed: list[bool] = []

    @property
    def connection(self) -> Leaders:
        return self

    async def leader(self, *partition: Any, refresh: bool) -> Leaders:
        assert partition == ORDERS
        self.refreshed.append(refresh)
        if self.failing:
            raise self.failing.pop()
        return self


class Begun(Source):
    """Brings nothing."""

    waits_for_room: ClassVar = True

    def __init__(self, leaders: Leaders) -> None:
        config = ClientConfig(retry_backoff_ms=1, retry_backoff_ms_max=1)
        super().__init__(cast(Routes, leaders), config)
        self.begun = 0

    def begin(self, supply: Supply, channel: Channel) -> None:
        self.begun += 1

    def stop(self, supply: Supply) -> None: ...

    def resume(self, supplies: Iterable[Supply]) -> None: ...


class Wanted:
    """A feed that knows where to go on, or finds it out."""

    def __init__(self) -> None:
        self.is_wanted = True
        self.needs_position = False
        self.failures: list[PenstockError] = []

    async def find_position(self) -> None:
        self.needs_position = False

    def fail(self, error: PenstockError) -> None:
        self.failures.append(error)
        self.is_wanted = False


class Bench:
    def __init__(self) -> None:
        self.leaders = Leaders()
        self.source = Begun(self.leaders)
        self.feed = Wanted()
        self.buffer: Buffer[bytes] = Buffer(3, {}, len)
        self.supply = Supply(ORDERS, cast(Feed, self.feed), self.source, self.buffer)

    async def settled(self) -> None:
        """Until nothing is being found."""
        async with asyncio.timeout(10):
            while self.source.scope._tasks:
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    await bench.source.close()


async def test_it_finds_the_leader_and_begins_once(bench: Bench) -> None:
    bench.feed.needs_position = True
    bench.supply.go_on()
    bench.supply.go_on()
    await bench.settled()
    bench.supply.go_on()
    assert (bench.leaders.refreshed, bench.feed.needs_position, bench.source.begun) == (
        [False],
        False,
        1,
    )


async def test_it_is_tried_again_with_a_new_route_until_it_works(bench: Bench) -> None:
    """R-CORE-5"""
    bench.leaders.failing = [NotLeader(), NotLeader()]
    bench.supply.go_on()
    await bench.settled()
    assert (bench.leaders.refreshed, bench.source.begun) == ([False, True, True], 1)


async def test_what_does_not_pass_is_told_and_tried_no_more(bench: Bench) -> None:
    bench.leaders.failing = [error := UnknownTopic("orders was deleted."), NotLeader()]
    bench.supply.go_on()
    await bench.settled()
    assert (bench.feed.failures, bench.source.begun) == ([error], 0)
    bench.feed.is_wanted = True
    bench.supply.recover()
    await bench.settled()
    assert bench.source.begun == 1


async def test_without_room_nothing_is_begun(bench: Bench) -> None:
    """R-DEL-6"""
    bench.buffer.add([b"1234"])
    bench.supply.go_on()
    await bench.settled()
    assert bench.leaders.refreshed == []
    bench.buffer.take()
    bench.supply.go_on()
    await bench.settled()
    assert bench.source.begun == 1


async def test_what_is_not_wanted_is_not_looked_for(bench: Bench) -> None:
    bench.leaders.failing = [NotLeader()] * 1000
    bench.supply.go_on()
    await asyncio.sleep(0)
    bench.feed.is_wanted = False
    await bench.settled()
    assert len(bench.leaders.refreshed) <= 2


async def test_whoever_has_to_wait_waits_longer_each_time(bench: Bench) -> None:
    waits: list[int] = []
    for at_once in (True, False):
        bench.supply.failures = 0
        for _ in range(3):
            bench.supply.try_again(at_once=at_once)
            waits.append(bench.supply.failures - 1)
    assert waits == [0, 1, 2, 1, 2, 3]


async def test_a_source_that_is_closed_begins_nothing(bench: Bench) -> None:
    await bench.source.close()
    bench.supply.go_on()
    bench.supply.try_again()
    assert (bench.source.begun, bench.source.scope._tasks) == (0, set())
