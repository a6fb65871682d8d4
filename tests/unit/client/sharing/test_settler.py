"""Outcomes of leased messages: gathered, told in ranges, one call at a time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import Routes
from penstock.client.sharing.settler import (
    ABANDON,
    ACKNOWLEDGED,
    EXTEND,
    FAIL,
    RELEASE,
    Outcome,
    Settler,
)
from penstock.model.errors import NotLeader, PenstockError, UnknownLease
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


async def test_the_last_word_counts_where_the_one_before_was_not_told() -> None:
    """Extended, and done with before the broker could be reached."""
    async with settling() as (settler, broker):
        settler.put(1, Outcome(EXTEND))
        assert await broker.next() == [(1, 1, EXTEND)]
        settler.put(1, ACKNOWLEDGED)
        broker.answers.put_nowait(NotLeader())
        assert await broker.next() == [(1, 1, ACKNOWLEDGED.kind)]
        broker.answers.put_nowait(None)
        await settler.told()


# --- one that is refused does not take its neighbours along


JOBS = TopicPartition("jobs", 0)


class Leader:
    """Settles what is held; a range of which something is not held is refused."""

    def __init__(self, held: set[int]) -> None:
        self.held = held
        self.calls: list[list[tuple[int, int]]] = []

    async def call_leader(
        self, partition: TopicPartition, call: Any, request: pb.SettleRequest
    ) -> pb.SettleResponse:
        assert partition == JOBS
        self.calls.append([(one.first, one.last) for one in request.ranges])
        response = pb.SettleResponse()
        for one in request.ranges:
            outcome = response.outcomes.add()
            if set(range(one.first, one.last + 1)) <= self.held:
                self.held -= set(range(one.first, one.last + 1))
            else:
                outcome.code = UnknownLease.code
        return response


async def told(leader: Leader, outcomes: dict[int, Outcome]) -> Settler:
    backoff = Backoff(first_s=0.001, longest_s=0.001)
    settler = Settler("workers", "a", JOBS, cast(Routes, leader), backoff)
    for offset, outcome in outcomes.items():
        settler.put(offset, outcome)
    running = asyncio.create_task(settler.run())
    async with asyncio.timeout(10):
        await settler.told()
    running.cancel()
    return settler


async def test_neighbours_are_told_together() -> None:
    leader = Leader(set(range(10)))
    settler = await told(leader, dict.fromkeys(range(10), ACKNOWLEDGED))
    assert leader.calls == [[(0, 9)]]
    assert settler.lost_count == 0


async def test_what_is_held_goes_through_beside_what_is_not() -> None:
    """R-DEL-3: an acknowledged message is not delivered again for a neighbour's sake."""
    leader = Leader({0, 1, 3, 7})
    settler = await told(leader, dict.fromkeys([0, 1, 2, 3, 7], ACKNOWLEDGED))
    assert leader.calls == [[(0, 3), (7, 7)], [(0, 0), (1, 1), (2, 2), (3, 3)]]
    assert leader.held == set()
    assert settler.lost_count == 1


async def test_what_was_not_held_any_more_is_no_loss_to_who_gives_it_back() -> None:
    outcomes = {0: Outcome(RELEASE), 1: Outcome(EXTEND), 2: Outcome(ABANDON)}
    settler = await told(Leader(set()), outcomes)
    assert settler.lost_count == 0


async def test_why_a_lease_is_no_longer_is_kept_for_who_waits_for_it_alone() -> None:
    """A consumer extends leases by itself, for months."""
    backoff = Backoff(first_s=0.001, longest_s=0.001)
    settler = Settler("workers", "a", JOBS, cast(Routes, Leader(set())), backoff)
    running = asyncio.create_task(settler.run())
    settler.put(0, Outcome(EXTEND))
    async with asyncio.timeout(10):
        await settler.told()
        assert settler._extending == {}
        with pytest.raises(UnknownLease):
            await settler.extend(1)
        assert settler._extending == {}
    running.cancel()
