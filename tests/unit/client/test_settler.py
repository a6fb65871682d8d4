"""Outcomes of leased messages: gathered, told in ranges, one call at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

from penstock.client.backoff import Backoff
from penstock.client.routes import Routes
from penstock.client.settler import ACKNOWLEDGED, FAIL, Outcome, Settler
from penstock.model.errors import NotLeader, PenstockError
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb

Told = list[tuple[int, int, int]]


class Broker:
    """Answers a settlement when it is let to."""

    def __init__(self) -> None:
        self.told: list[Told] = []
        self.asked = asyncio.Event()
        self.answers: asyncio.Queue[PenstockError | None] = asyncio.Queue()

    async def call_leader(
        self, _partition: TopicPartition, _call: Any, request: pb.SettleRequest
    ) -> pb.SettleResponse:
        self.told.append([(one.first, one.last, one.kind) for one in request.ranges])
        self.asked.set()
        error = await self.answers.get()
        if error is not None:
            raise error
        return pb.SettleResponse(outcomes=[pb.Error() for _ in request.ranges])

    async def next(self) -> Told:
        await self.asked.wait()
        self.asked.clear()
        return self.told[-1]


@contextlib.asynccontextmanager
async def settling() -> AsyncIterator[tuple[Settler, Broker]]:
    broker = Broker()
    backoff = Backoff(first_s=0.001, longest_s=0.001)
    place = TopicPartition("orders", 0)
    settler = Settler("g", "a", place, cast(Routes, broker), backoff)
    running = asyncio.create_task(settler.run())
    try:
        yield settler, broker
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_neighbours_with_one_outcome_are_a_range() -> None:
    async with settling() as (settler, broker):
        for offset in (3, 1, 2, 7):
            settler.put(offset, ACKNOWLEDGED)
        settler.put(4, Outcome(FAIL, "why"))
        acknowledge = ACKNOWLEDGED.kind
        assert await broker.next() == [(1, 3, acknowledge), (4, 4, FAIL), (7, 7, acknowledge)]
        broker.answers.put_nowait(None)
        await settler.told()


async def test_what_comes_during_a_call_goes_with_the_next_and_is_waited_for() -> None:
    async with settling() as (settler, broker):
        settler.put(1, ACKNOWLEDGED)
        await broker.next()
        settler.put(2, ACKNOWLEDGED)
        settler.put(3, ACKNOWLEDGED)
        waiting = asyncio.create_task(settler.told())
        broker.answers.put_nowait(None)
        assert await broker.next() == [(2, 3, ACKNOWLEDGED.kind)]
        assert not waiting.done()
        broker.answers.put_nowait(None)
        await waiting


async def test_an_outcome_is_told_until_a_broker_has_answered() -> None:
    async with settling() as (settler, broker):
        settler.put(1, ACKNOWLEDGED)
        await broker.next()
        broker.answers.put_nowait(NotLeader())
        settler.put(2, ACKNOWLEDGED)
        assert await broker.next() == [(1, 2, ACKNOWLEDGED.kind)]
        broker.answers.put_nowait(None)
        await settler.told()
        settler.put(3, ACKNOWLEDGED)
        assert await broker.next() == [(3, 3, ACKNOWLEDGED.kind)]
