"""Outcomes told in ranges: one that is refused does not take its neighbours along."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from penstock.client.backoff import Backoff
from penstock.client.routes import Routes
from penstock.client.settler import ACKNOWLEDGED, EXTEND, RELEASE, Outcome, Settler
from penstock.model.delivery_errors import UnknownLease
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb

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
    settler = await told(Leader(set()), {0: Outcome(RELEASE), 1: Outcome(EXTEND)})
    assert settler.lost_count == 0
