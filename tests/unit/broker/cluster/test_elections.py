"""Preferred brokers are let lead when somebody asks for it, also while leaders change."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.cluster import elections
from penstock.broker.cluster.elections import ELECTED, NOT_AVAILABLE, NOT_NEEDED, UNKNOWN, Elections
from penstock.model.ids import BrokerId, TopicPartition
from tests.kit.broker.cluster import Village, village

ZERO = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits looks again in the next turn: the test lets time pass."""
    monkeypatch.setattr(elections, "_LOOK_S", 0)
    monkeypatch.setattr(elections, "_AGAIN_S", 0)


def elections_of(cluster: Village, number: int) -> Elections:
    life = cluster.up[number]
    return Elections(
        BrokerId(number),
        cluster.registry,
        life.partitions,
        life.leaders,
        cluster.clock,
        life.movement,
    )


async def test_a_leader_lets_the_preferred_broker_lead() -> None:
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.pass_ms(1_000)
        await cluster.retarget([2, 1, 3])
        asked = elections_of(cluster, 1)
        assert asked.all() == [ZERO]
        asking = asyncio.create_task(asked.elect([ZERO, TopicPartition("orders", 7)]))
        await cluster.wait(asking.done)
        assert await asking == {ZERO: ELECTED, TopicPartition("orders", 7): UNKNOWN}
        assert cluster.leader() is cluster.up[2]
        assert await asked.elect([ZERO]) == {ZERO: NOT_NEEDED}


async def test_an_election_that_is_under_way_is_waited_for() -> None:
    """The leader has just died: whom the others hold for it cannot be asked."""
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.pass_ms(1_000)
        await cluster.retarget([2, 1, 3])
        await cluster.kill(1)
        asking = asyncio.create_task(elections_of(cluster, 3).elect([ZERO]))
        await cluster.wait(asking.done)
        assert await asking == {ZERO: ELECTED}
        assert cluster.leader() is cluster.up[2]


async def test_a_preferred_broker_that_is_dead_is_not_waited_for() -> None:
    async with village(3) as cluster:
        await cluster.create([1, 2, 3])
        await cluster.kill(1)
        await cluster.wait(lambda: cluster.leader() is not None)
        before_ms = cluster.now_ms
        assert await elections_of(cluster, 2).elect([ZERO]) == {ZERO: NOT_AVAILABLE}
        assert cluster.now_ms == before_ms
