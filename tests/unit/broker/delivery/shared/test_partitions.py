"""Messages leased to members of a shared group, over the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from penstock.broker.delivery.dead_letters import DeadLetters
from penstock.broker.delivery.filters import Filters
from penstock.broker.delivery.shared import partitions as shares
from penstock.broker.delivery.shared.partition import Ask, Leased
from penstock.broker.delivery.shared.partitions import Shares
from penstock.broker.partitions.unopened import TurnBudget
from penstock.broker.turns.fair_turns import FairTurns
from penstock.model.errors import (
    InvalidRequest,
    InvalidTopic,
    NotLeader,
    PenstockError,
    TooManySubscriptions,
    UnknownGroup,
    UnknownLease,
    UnknownTopic,
)
from penstock.model.message_headers import EXPIRES_MS, PRIORITY
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message
from tests.kit.broker.groups import Life, living
from tests.kit.broker.shared_groups import (
    EXTEND,
    FAIL,
    LEASE_MS,
    REJECT,
    RELEASE,
    stage,
)
from tests.kit.simulated_disk import SimulatedDisk

LOST = UnknownLease.code


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


async def test_each_message_goes_to_one_member() -> None:
    """R-DEL-3: several consumers on one partition, each message once."""
    async with stage() as here:
        await here.publish(10)
        a, b = await here.member("a"), await here.member("b")
        assert offsets(await a.lease(4)) == [0, 1, 2, 3]
        assert offsets(await b.lease(4)) == [4, 5, 6, 7]
        assert offsets(await a.lease(4)) == [8, 9]
        assert await b.lease(max_wait_ms=1) == []


@pytest.mark.parametrize("codec", [0, 4])
async def test_a_part_of_a_batch_is_what_was_published(codec: int) -> None:
    async with stage() as here:
        await here.publish(10, key=b"k", headers=[("h", b"1")], codec=codec)
        a = await here.member("a")
        await a.lease(3)
        (message, *_) = await a.lease(2)
        assert (message.offset, message.key, message.value) == (3, b"k", b"value 3")
        assert message.headers == (("h", b"1"),)


async def test_what_is_acknowledged_is_not_handed_out_again() -> None:
    async with stage() as here:
        await here.publish(5)
        a = await here.member("a")
        await a.lease()
        assert await a.settle(0, 1) == 0
        assert await a.settle(3) == 0
        here.clock.time_ms += LEASE_MS
        response, messages = await a.leased()
        assert offsets(messages) == [2, 4]
        assert [one.attempt for one in response.leases] == [2, 2]


async def test_a_member_settles_only_what_it_holds() -> None:
    """An acknowledgement by somebody else, a second one, one after the lease's end."""
    async with stage() as here:
        await here.publish(3)
        a, b = await here.member("a"), await here.member("b")
        await a.lease()
        assert await b.settle(0) == LOST
        assert await a.settle(0) == 0
        assert await a.settle(0) == LOST
        assert await a.settle(7) == LOST
        here.clock.time_ms += LEASE_MS
        assert await a.settle(1) == LOST
        assert offsets(await b.lease()) == [1, 2]


async def test_released_extended() -> None:
    async with stage() as here:
        await here.publish(2)
        a, b = await here.member("a"), await here.member("b")
        await a.lease()
        here.clock.time_ms += LEASE_MS - 1
        assert await a.settle(0, kind=EXTEND) == 0
        assert await a.settle(1, kind=RELEASE) == 0
        response, messages = await b.leased()
        assert offsets(messages) == [1]
        assert [one.attempt for one in response.leases] == [1]
        here.clock.time_ms += LEASE_MS - 1
        assert await a.settle(0) == 0


async def test_what_a_lost_member_held_is_for_others_at_once() -> None:
    """R-DEL-7: the leases of a client whose connection ends return."""
    async with stage() as here:
        await here.publish(3)
        a, b = await here.member("a"), await here.member("b")
        await a.lease()
        waiting = asyncio.create_task(b.lease(max_wait_ms=10_000))
        await asyncio.sleep(0)
        a.channel.close()
        assert offsets(await waiting) == [0, 1, 2]


async def test_who_waits_gets_what_comes() -> None:
    """R-DEL-6: long polling, for shared groups."""
    async with stage() as here:
        a = await here.member("a")
        waiting = asyncio.create_task(a.lease(max_wait_ms=10_000))
        await asyncio.sleep(0)
        await here.publish(2)
        assert offsets(await waiting) == [0, 1]


async def test_a_message_that_keeps_failing_becomes_a_dead_letter() -> None:
    """R-DEL-9: after a number of tries, with the reason."""
    async with stage() as here:
        await here.publish(2, key=b"k")
        a = await here.member("a", attempts_max=2)
        for _ in range(2):
            assert offsets(await a.lease(1)) == [0]
            assert await a.settle(0, kind=FAIL, reason="no such account") == 0
        assert offsets(await a.lease()) == [1]
        (dead,) = await here.dead_letters()
        assert dead.key == b"orders/0/0"
        assert dead.value == b"value 0"
        told = dict(dead.headers)
        assert told["penstock-dead-reason"] == b"no such account"
        assert told["penstock-dead-attempts"] == b"2"
        assert told["penstock-dead-key"] == b"k"


async def test_a_rejected_message_is_dead_at_once() -> None:
    async with stage() as here:
        await here.publish(1)
        a = await here.member("a")
        await a.lease()
        assert await a.settle(0, kind=REJECT, reason="never") == 0
        (dead,) = await here.dead_letters()
        assert dict(dead.headers)["penstock-dead-reason"] == b"never"
        here.clock.time_ms += LEASE_MS
        assert await a.lease(max_wait_ms=1) == []


async def test_messages_of_one_key_one_after_another() -> None:
    """R-DEL-11: to one member at a time, also with more members than partitions."""
    async with stage() as here:
        await here.publish(2, key=b"alice")
        await here.publish(1, key=b"bob")
        a = await here.member("a", ordered_by_key=True)
        b = await here.member("b", ordered_by_key=True)
        assert offsets(await a.lease()) == [0, 2]
        assert await b.lease(max_wait_ms=1) == []
        assert await a.settle(0) == 0
        assert offsets(await b.lease()) == [1]


async def test_higher_priorities_first() -> None:
    async with stage() as here:
        await here.publish(1)
        await here.publish(1, headers=[(PRIORITY, b"9")])
        await here.publish(1, headers=[(PRIORITY, b"0")])
        a = await here.member("a")
        order = [offsets(await a.lease(1)) for _ in range(3)]
        assert order == [[1], [0], [2]]


async def test_an_expired_message_is_not_delivered() -> None:
    async with stage() as here:
        expires_ms = here.clock.time_ms + 1_000
        await here.publish(1, headers=[(EXPIRES_MS, b"%d" % expires_ms)])
        await here.publish(1)
        here.clock.time_ms = expires_ms
        a = await here.member("a")
        assert offsets(await a.lease()) == [1]


async def test_what_does_not_fit_is_left_for_the_next() -> None:
    async with stage() as here:
        for _ in range(3):
            await here.publish(10)
        a = await here.member("a")
        assert offsets(await a.lease(bytes_max=1)) == list(range(10))
        assert offsets(await a.lease()) == list(range(10, 30))


async def test_an_orderly_restart_leaves_nothing_in_doubt() -> None:
    """What is done stays done, and the rest is there at once."""
    disk, clock = SimulatedDisk(), None
    async with stage(disk) as here:
        clock = here.clock
        await here.publish(6)
        a = await here.member("a")
        await a.lease(4)
        assert await a.settle(0, 1) == 0
    async with stage(disk, clock, is_new=False) as here:
        b = await here.member("b")
        assert offsets(await b.lease()) == [2, 3, 4, 5]


async def test_bad_requests() -> None:
    async with stage() as here:
        a = await here.member("a")
        with pytest.raises(UnknownGroup):
            await a.lease(group="other")
        with pytest.raises(UnknownTopic):
            await a.lease(topic="other")
        with pytest.raises(InvalidTopic):
            await a.lease(topic="__offsets")
        with pytest.raises(InvalidRequest):
            await a.lease(0)
        with pytest.raises(InvalidRequest):
            await a.lease(member_id="m" * 1_000)
        with pytest.raises(InvalidRequest):
            await a.settle(0, kind=99)
        assert await a.settle(5, 3) == InvalidRequest.code


class Connection:
    """One that ends when it is told to."""

    def __init__(self) -> None:
        self.is_open = True
        self.waiting: dict[object, Callable[[], None]] = {}

    def on_close(self, waiter: object, then: Callable[[], None]) -> None:
        self.waiting[waiter] = then

    def forget(self, waiter: object) -> None:
        self.waiting.pop(waiter, None)

    def close(self) -> None:
        self.is_open = False
        waiting, self.waiting = self.waiting, {}
        for then in waiting.values():
            then()


class Asking(Ask):
    __slots__ = ("told",)

    def __init__(self) -> None:
        super().__init__("a", 10, 1 << 20)
        self.told: list[object] = []

    def answer(self, leased: Leased) -> None:
        self.told.append(leased)

    def refuse(self, error: PenstockError) -> None:
        self.told.append(error)


class Opening:
    """Shares that learn where their group stands when the test says so."""

    def __init__(self, life: Life) -> None:
        self.is_known = asyncio.Event()
        unused = cast(DeadLetters, None)
        turns = cast(FairTurns, None)
        budget = TurnBudget(asyncio.get_running_loop().call_soon)
        self.shares = Shares(life.partitions, self, unused, Filters(), turns, budget, life.clock)
        self.partition = life.leaders.find("orders", 0)

    async def read_share(self, request: pb.ReadShareRequest) -> pb.ReadShareResponse:
        await self.is_known.wait()
        return pb.ReadShareResponse(
            settings=pb.SharedSettings(lease_ms=LEASE_MS, attempts_max=5, backoff_ms_max=1)
        )

    async def write_share(self, request: pb.WriteShareRequest) -> pb.WriteShareResponse:
        return pb.WriteShareResponse()

    async def finish(self) -> None:
        self.is_known.set()
        for _ in range(10):
            await asyncio.sleep(0)


async def test_who_gives_up_while_it_is_read_where_the_group_stands_is_told_nothing() -> None:
    """Else it would hold messages that it never hears of. The share is there when it asks again."""
    async with living(SimulatedDisk()) as life:
        opening, ask, here = Opening(life), Asking(), Connection()
        opening.shares.ask("g", opening.partition, ask, here)
        opening.shares.give_up("g", opening.partition, ask)
        await opening.finish()
        [share] = opening.shares
        assert (ask.told, share.machine.counts().leased) == ([], 0)
        here.close()
        await opening.finish()
        assert list(opening.shares) == []
        await opening.shares.stop()


async def test_who_goes_while_it_is_read_where_the_group_stands_leaves_nothing_behind() -> None:
    async with living(SimulatedDisk()) as life:
        opening, ask, here = Opening(life), Asking(), Connection()
        opening.shares.ask("g", opening.partition, ask, here)
        here.close()
        await opening.finish()
        assert (ask.told, here.waiting, list(opening.shares)) == ([], {}, [])
        await opening.shares.stop()


async def test_nobody_waits_or_holds_anything_where_another_broker_leads() -> None:
    """R-DEL-3: the other leases all of it."""
    async with living(SimulatedDisk()) as life:
        opening, ask, here = Opening(life), Asking(), Connection()
        opening.shares.ask("g", opening.partition, ask, here)
        await opening.finish()
        assert (ask.told, len(here.waiting)) == ([], 1)
        opening.partition.replica._lose_leadership()
        assert [type(each) for each in ask.told] == [NotLeader]
        assert (list(opening.shares), here.waiting) == ([], {})
        await opening.shares.stop()


async def test_a_member_leaves_one_group_and_stays_in_another() -> None:
    async with living(SimulatedDisk()) as life:
        opening, here = Opening(life), Connection()
        for group in ("g", "h"):
            opening.shares.ask(group, opening.partition, Asking(), here)
        await opening.finish()
        opening.shares.leave("g", "a", here, is_lost=False)
        await opening.finish()
        assert [share.group for share in opening.shares] == ["h"]
        assert len(here.waiting) == 1
        opening.shares.leave("h", "a", here, is_lost=False)
        await opening.finish()
        assert (list(opening.shares), here.waiting) == ([], {})
        await opening.shares.stop()


async def test_what_was_released_for_later_waits_also_when_nobody_is_left() -> None:
    """The share is closed with its last member, and opened again for the next."""
    disk, clock = SimulatedDisk(), None
    async with stage(disk) as here:
        clock = here.clock
        await here.publish(2)
        a = await here.member("a")
        await a.lease()
        assert await a.settle(0, kind=RELEASE, delay_ms=60_000) == 0
        # What is not given back when the broker ends stays in doubt for as long as a lease.
        await a.leave()
    async with stage(disk, clock, is_new=False) as here:
        b = await here.member("b")
        assert offsets(await b.lease()) == [1]
        clock.time_ms += 60_000
        assert 0 in offsets(await b.lease())


async def test_a_member_that_leaves_gives_back_what_it_holds() -> None:
    """Though its connection stays: others use it too. Only what it says it had begun with was an
    attempt: the rest may not even have reached it."""
    async with stage() as here:
        await here.publish(2)
        a, b = await here.member("a"), await here.member("b")
        await a.lease()
        assert await a.settle(0, kind=pb.SettleRequest.KIND_ABANDON) == 0
        await a.leave()
        response, _ = await b.leased()
        assert [(one.first, one.attempt) for one in response.leases] == [(0, 2), (1, 1)]


async def test_a_second_connection_of_a_member_keeps_what_it_holds() -> None:
    """It has connected again before the end of the first was seen."""
    async with stage() as here:
        await here.publish(2)
        first, b = await here.member("a"), await here.member("b")
        assert offsets(await first.lease(1)) == [0]
        again = await here.member("a")
        assert offsets(await again.lease(1)) == [1]
        first.channel.close()
        assert await b.lease(max_wait_ms=20) == []
        assert await again.settle(1) == 0


async def test_the_dead_are_buried_also_when_nobody_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-9: the topic of dead letters has no leader at first, and the only member goes."""
    bury, refusals = DeadLetters.bury, [NotLeader()]

    async def refused_once(self: DeadLetters, *what: Any) -> None:
        if refusals:
            raise refusals.pop()
        await bury(self, *what)

    monkeypatch.setattr(DeadLetters, "bury", refused_once)
    async with stage() as here:
        await here.publish(1)
        a = await here.member("a")
        await a.lease()
        assert await a.settle(0, kind=REJECT, reason="never") == 0
        a.channel.close()
        while refusals:
            await asyncio.sleep(0)
        here.clock.time_ms += 2_000
        (dead,) = await here.dead_letters()
        assert dict(dead.headers)["penstock-dead-reason"] == b"never"


async def test_one_connection_speaks_for_so_many_members_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-3: names cost nothing to make up, and the broker remembers who holds what."""
    monkeypatch.setattr(shares, "MEMBERSHIPS_PER_CONNECTION_MAX", 3)
    async with stage() as here:
        await here.publish(10)
        a = await here.member("a")
        for name in ("b", "c", "a"):
            assert len(await a.lease(1, member_id=name)) == 1
        assert len(await a.lease(1)) == 1
        with pytest.raises(TooManySubscriptions, match="use another"):
            await a.lease(1, member_id="d")
        leaving = pb.SettleRequest(group="g", member_id="b", topic="orders", leaves=True)
        await a.channel.call(calls.SETTLE, leaving)
        assert len(await a.lease(1, member_id="d")) == 1
        other = await here.member("e")
        assert len(await other.lease(1)) == 1
