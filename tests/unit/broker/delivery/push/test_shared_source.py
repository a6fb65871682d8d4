"""Leased messages that are pushed: within the credit, and back with the group when nobody answers.

R-DEL-3, R-DEL-6, R-DEL-7, R-DEL-8.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.broker import broker as broker_module
from penstock.broker.context import Context
from penstock.model.errors import InvalidGroup, InvalidRequest, InvalidTopic
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.push_client import PushedClient, pushed, settled, until
from tests.kit.broker.shared_groups import LEASE_MS, Member, Stage, stage


class PushedMember(Member):
    """Of group `g`, pushed to on its own connection."""

    def __init__(self, client: PushedClient, name: str) -> None:
        super().__init__(client.channel, name)
        self.client = client

    async def open(self, messages: int = 1000, **request: Any) -> None:
        await self.client.open(
            messages=messages, group="g", member_id=self.name, shared=True, **request
        )

    @property
    def offsets(self) -> list[int]:
        """Of all that was leased to it by pushes, each delivery counted once."""
        seen = {one.request.delivery: one for one in self.client.deliveries}
        return [
            offset
            for one in seen.values()
            for lease in one.request.leases
            for offset in range(lease.first, lease.last + 1)
        ]


@contextlib.asynccontextmanager
async def pushed_member(here: Stage, name: str, **settings: Any) -> AsyncIterator[PushedMember]:
    async with pushed(here.broker) as client:
        member = PushedMember(client, name)
        await client.hello(name)
        await member.join(**settings)
        yield member


def passed(here: Stage, time_ms: int) -> bool:
    """So much of the broker's time."""
    here.clock.time_ms += time_ms
    return True


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[Context]:
    """The insides of the brokers that the test starts."""
    found: list[Context] = []

    def make(**parts: Any) -> Context:
        found.append(Context(**parts))
        return found[-1]

    monkeypatch.setattr(broker_module, "Context", make)
    return found


async def test_messages_are_leased_as_long_as_there_is_credit() -> None:
    """R-DEL-3, R-DEL-6: each to one member; the rest is for others."""
    async with stage() as here, pushed_member(here, "a") as a, pushed_member(here, "b") as b:
        await here.publish(10)
        await a.open(3)
        await until(lambda: a.offsets == [0, 1, 2])
        delivery = a.client.deliveries[0]
        assert delivery.request.lease_ms == LEASE_MS - 1
        assert delivery.values == [b"value 0", b"value 1", b"value 2"]
        await b.open()
        await until(lambda: b.offsets == [3, 4, 5, 6, 7, 8, 9])
        await a.client.give(2, 100)
        await here.publish(3)
        await until(lambda: sorted(a.offsets + b.offsets) == list(range(13)))
        assert len(a.offsets) <= 5
        assert await a.settle(0, 2) == 0
        assert await b.settle(0) != 0


async def test_a_delivery_without_an_answer_returns_when_it_is_parked() -> None:
    """R-DEL-8: others get it at once, with no attempt counted; the client hears what it lost."""
    async with (
        stage(push_timeout_ms=5, push_retry_ms=5) as here,
        pushed_member(here, "a") as a,
        pushed_member(here, "b") as b,
    ):
        await here.publish(2)
        await a.open()
        await until(lambda: a.offsets == [0, 1])
        a.client.is_silent = True
        await here.publish(2)
        await until(lambda: a.offsets == [0, 1, 2, 3])
        await until(lambda: passed(here, 1) and bool(a.client.endings))
        # Once more, with the same number; then no more.
        assert a.client.numbers == [1, 2, 2]
        assert a.client.deliveries[2].values == a.client.deliveries[1].values
        assert 0 < a.client.deliveries[2].request.lease_ms < LEASE_MS
        [ended] = a.client.endings
        assert (ended.is_parked, list(ended.withdrawn)) == (True, [2])
        response, leased = await b.leased()
        assert [message.offset for message in leased] == [2, 3]
        assert [one.attempt for one in response.leases] == [1]
        # What it had answered is its own.
        assert await a.settle(0, 1) == 0
        assert await a.settle(2) != 0
        # Resumed, it is pushed what comes from then on.
        a.client.is_silent = False
        await a.client.resume()
        await here.publish(1)
        await until(lambda: a.client.numbers[-1] == 3)
        assert a.offsets[-1] == 4


async def test_what_an_operator_parks_stays_where_it_is() -> None:
    """R-DEL-8: the client lives, and is about to answer."""
    async with stage() as here, pushed_member(here, "a") as a:
        await here.publish(2)
        a.client.is_silent = True
        await a.open()
        await until(lambda: a.offsets == [0, 1])
        assert await a.client.steer("a", park=True) == 1
        await until(lambda: bool(a.client.endings))
        assert list(a.client.endings[0].withdrawn) == []
        assert await a.settle(0, 1) == 0


async def test_leases_that_are_over_are_not_sent_again() -> None:
    """R-DEL-8: they are another's by then."""
    async with (
        stage(push_timeout_ms=5, push_retry_ms=5) as here,
        pushed_member(here, "a", lease_ms=1_000) as a,
        pushed_member(here, "b", lease_ms=1_000) as b,
    ):
        await here.publish(1)
        a.client.is_silent = True
        await a.open(1)
        await until(lambda: a.offsets == [0])
        here.clock.time_ms += 2_000
        assert [message.offset for message in await b.lease()] == [0]
        await until(lambda: passed(here, 100) and bool(a.client.endings))
        assert a.client.numbers == [1]


async def test_a_client_is_told_by_its_own_clock_when_messages_were_leased() -> None:
    """R-DEL-3: it may read of them when that is long over."""
    async with stage() as here, pushed_member(here, "a") as a:
        await a.open()
        await here.publish(1)
        await until(lambda: a.offsets == [0])
        assert a.client.deliveries[0].request.leased_at_ms == 0  # it has not said what time it is
        a.client.now_ms = 50_000
        here.clock.time_ms += 1_000
        await here.publish(1)
        await until(lambda: a.offsets == [0, 1])
        await settled(a.client)
        here.clock.time_ms += 1_000
        a.client.now_ms = 2**62
        await here.publish(1)
        await until(lambda: a.offsets == [0, 1, 2])
        assert a.client.deliveries[-1].request.leased_at_ms == 51_000
        await settled(a.client)
        here.clock.time_ms += 1_000
        await here.publish(1)
        await until(lambda: a.offsets == [0, 1, 2, 3])
        assert a.client.deliveries[-1].request.leased_at_ms == 52_000


async def test_a_closed_stream_gives_back_what_was_not_answered() -> None:
    async with stage() as here, pushed_member(here, "a") as a, pushed_member(here, "b") as b:
        await here.publish(2)
        await a.open(2)
        await until(lambda: a.offsets == [0, 1])
        await settled(a.client)
        a.client.is_silent = True
        await a.client.give(2, 100)
        await here.publish(2)
        await until(lambda: a.offsets == [0, 1, 2, 3])
        await a.client.close_stream()
        response, leased = await b.leased()
        assert [message.offset for message in leased] == [2, 3]
        assert [one.attempt for one in response.leases] == [1]
        assert await a.settle(0, 1) == 0


async def test_a_lost_connection_returns_everything() -> None:
    """R-DEL-7: answered or not, each an attempt more."""
    async with stage() as here, pushed_member(here, "b") as b:
        async with pushed_member(here, "a") as a:
            await here.publish(2)
            await a.open()
            await until(lambda: a.offsets == [0, 1])
            a.client.is_silent = True
            await here.publish(2)
            await until(lambda: a.offsets == [0, 1, 2, 3])
        await b.open()
        await until(lambda: b.offsets == [0, 1, 2, 3])
        attempts = {one.attempt for each in b.client.deliveries for one in each.request.leases}
        assert attempts == {2}


async def test_what_came_just_before_the_stream_was_closed_is_given_back(
    contexts: list[Context],
) -> None:
    """R-DEL-6: a lease that no delivery was made of is nobody's."""
    async with stage() as here, pushed_member(here, "a") as a, pushed_member(here, "b") as b:
        await a.open()
        [context] = contexts
        await until(lambda: bool(list(context.delivery.shares)))
        [share] = context.delivery.shares
        await until(lambda: bool(share._waiting) and share.saving is None)
        [streams] = context.delivery.pushes._connections.values()
        publishing = asyncio.create_task(here.publish(3))
        async with asyncio.timeout(10):
            while share.machine.counts().leased == 0:
                await asyncio.sleep(0)
        # Leased in this turn of the loop; it is handed on in the next.
        assert a.offsets == []
        streams.streams[1].close()
        assert share.machine.counts().leased == 0
        await publishing
        await b.open()
        await until(lambda: b.offsets == [0, 1, 2])
        assert a.offsets == []


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"member_id": ""}, InvalidRequest),
        ({"member_id": "x" * 10_000}, InvalidRequest),
        ({"group": ""}, InvalidGroup),
        ({"topic": "__offsets"}, InvalidTopic),
        ({"wanted": pb.Filter(expression="a = 1")}, InvalidRequest),
    ],
)
async def test_a_stream_that_makes_no_sense_is_refused(
    request_: dict[str, Any], error: type[Exception]
) -> None:
    async with stage() as here, pushed(here.broker) as client:
        asked: dict[str, Any] = {"group": "g", "shared": True} | request_
        with pytest.raises(error):
            await client.open(**asked)


async def test_a_group_that_nobody_is_in_ends_the_stream() -> None:
    async with stage() as here, pushed(here.broker) as client:
        await client.open(group="nobody", shared=True)
        await until(lambda: bool(client.endings))
        assert not client.endings[0].is_parked
        assert "nobody" in client.endings[0].error.message
