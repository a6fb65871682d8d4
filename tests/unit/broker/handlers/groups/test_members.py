"""Members that speak our own protocol, over the wire: they join, share, claim, are fenced, and are
missed soon when their connection ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from penstock.broker.clients.session import Session
from penstock.broker.groups.log import GroupLog
from penstock.broker.handlers.groups import members as group_members
from penstock.coordination.group.consumer import group as consumer
from penstock.coordination.group.shared import group as share
from penstock.model.errors import (
    FencedMemberEpoch,
    InvalidGroup,
    InvalidRequest,
    PartitionClaimed,
    PartitionLost,
    StaleMemberEpoch,
    SubscriptionTaken,
    TooManySubscriptions,
    UnknownMember,
    UnknownTopic,
    UnsupportedAssignor,
)
from penstock.model.limits import NAMES_PER_CALL_MAX
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import RawClient, another_client, running
from tests.kit.simulated_disk import SimulatedDisk

Owned = dict[str, list[int]]


def owned_topics(owned: Owned) -> list[pb.OwnedTopic]:
    return [pb.OwnedTopic(topic=topic, partitions=numbers) for topic, numbers in owned.items()]


class Member:
    """One member; it says everything each time unless told otherwise."""

    def __init__(self, client: RawClient, member_id: str, **join: Any) -> None:
        self.client = client
        self.member_id = member_id
        self.epoch = 0
        self.owned: Owned = {}
        self._join = {"topics": ["orders"], "client_name": "tests", **join}

    async def beat(self, **changes: Any) -> pb.GroupHeartbeatResponse:
        request = pb.GroupHeartbeatRequest(
            **{
                "group": "g",
                "member_id": self.member_id,
                "member_epoch": self.epoch,
                "rebalance_timeout_ms": 10_000,
                "is_full": True,
                "owned": owned_topics(self.owned),
                **self._join,
                **changes,
            }
        )
        response, _ = await self.client.channel.call(calls.GROUP_HEARTBEAT, request)
        self.epoch = response.member_epoch
        if response.has_assignment:
            self.owned = {one.topic: list(one.partitions) for one in response.assignment}
        return response


class SharedMember(Member):
    """One of a shared group."""

    def __init__(self, client: RawClient, member_id: str, **join: Any) -> None:
        super().__init__(client, member_id, **{"group": "s", "shared": True, **join})


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def describe(client: RawClient, group: str = "g") -> pb.DescribeGroupResponse:
    request = pb.DescribeGroupRequest(group=group)
    response, _ = await client.channel.call(calls.DESCRIBE_GROUP, request)
    return response


async def test_two_members_share_a_topic() -> None:
    """R-DEL-4: and are told soon while something moves, seldom when nothing does."""
    async with running() as (_, client):
        await client.create("orders", 4)
        one, two = Member(client, "one"), Member(client, "two")
        answer = await one.beat()
        assert one.owned == {"orders": [0, 1, 2, 3]}
        assert answer.heartbeat_interval_ms == 1_000
        assert (answer.session_timeout_ms, answer.lost_ms) == (45_000, 3_000)
        answer = await two.beat()
        assert two.owned == {}
        assert answer.heartbeat_interval_ms == 200, "it waits for what the other has"
        await one.beat()
        await one.beat()
        await two.beat()
        assert len(one.owned["orders"]) == len(two.owned["orders"]) == 2
        described = await describe(client)
        assert (described.kind, described.state) == ("consumer", "Stable")
        assert {member.client_name for member in described.members} == {"tests"}
        assert all(member.client_host.startswith("127.0.0.1") for member in described.members)
        assert [place.member_id for place in described.places].count("one") == 2
        await one.beat(member_epoch=-1)
        one.epoch = 0
        await two.beat()
        assert two.owned == {"orders": [0, 1, 2, 3]}


async def test_heartbeats_that_say_nothing_new() -> None:
    async with running() as (_, client):
        await client.create("orders", 2)
        one = Member(client, "one")
        await one.beat()
        answer = await one.beat(
            is_full=False, topics=[], rebalance_timeout_ms=0, owned=owned_topics(one.owned)
        )
        assert not answer.has_assignment
        assert answer.member_epoch == 1


async def test_a_second_claim_is_refused_with_the_name_of_the_holder() -> None:
    """R-DEL-2"""
    async with running() as (_, client):
        await client.create("orders", 3)
        claim = {"assignor": "manual", "claims": owned_topics({"orders": [1]})}
        one = Member(client, "one", **claim, client_name="till-1")
        await one.beat()
        assert one.owned == {"orders": [1]}
        with pytest.raises(PartitionClaimed, match=r"orders-1 is claimed by 'till-1'.*member one"):
            await Member(client, "two", **claim).beat()
        await one.beat(member_epoch=-1)
        two = Member(client, "two", **claim)
        await two.beat()
        assert two.owned == {"orders": [1]}


async def test_a_commit_is_a_members_own_and_of_its_epoch() -> None:
    """R-DEL-10: whoever was removed, or is behind, changes nothing any more."""
    async with running() as (_, client):
        await client.create("orders", 2)
        one = Member(client, "one")
        await one.beat()

        async def commit(offset: int, **who: Any) -> None:
            request = pb.CommitOffsetsRequest(group="g", **who)
            request.offsets.add(topic="orders", partition=0, offset=offset)
            await client.channel.call(calls.COMMIT_OFFSETS, request)

        await commit(7, member_id="one", member_epoch=1)
        two = Member(client, "two")
        await two.beat()
        with pytest.raises(PartitionLost, match="orders-0 is not member two's"):
            await commit(8, member_id="two", member_epoch=two.epoch)
        await one.beat()
        await commit(7, member_id="one", member_epoch=one.epoch)
        await two.beat(member_epoch=-1)
        await one.beat()
        with pytest.raises(StaleMemberEpoch):
            await commit(8, member_id="one", member_epoch=0)
        with pytest.raises(UnknownMember):
            await commit(8, member_id="two", member_epoch=two.epoch)
        with pytest.raises(UnknownMember):
            await commit(8)
        described = await describe(client)
        assert [(place.partition, place.offset) for place in described.places] == [(0, 7), (1, -1)]
        await one.beat(member_epoch=-1)
        await commit(9)


async def test_point_to_point_is_for_one_group() -> None:
    """R-DEL-1: until it is deleted; a restart does not end it."""
    disk = SimulatedDisk()
    async with running(disk.root) as (_, client):
        await client.create("orders", 2)
        await Member(client, "one", point_to_point=True).beat()
    async with running(disk.root) as (_, client):
        with pytest.raises(SubscriptionTaken, match="'g'"):
            await Member(client, "two", group="h").beat()
        with pytest.raises(SubscriptionTaken, match="'g'"):
            await client.commit("h", 1)
        listed, _ = await client.channel.call(
            calls.LIST_SUBSCRIPTIONS, pb.ListSubscriptionsRequest(topic="orders")
        )
        [subscription] = listed.subscriptions
        assert subscription.point_to_point
        assert list(subscription.groups) == ["g"]
        one = Member(client, "one")
        one.epoch = 1
        await one.beat(member_epoch=-1)
        await client.channel.call(calls.DELETE_GROUP, pb.DeleteGroupRequest(group="g"))
        await Member(client, "two", group="h").beat()


async def test_fenced_members_are_told() -> None:
    async with running() as (_, client):
        await client.create("orders")
        one = Member(client, "one")
        await one.beat()
        with pytest.raises(FencedMemberEpoch):
            await one.beat(member_epoch=9)
        with pytest.raises(UnknownMember):
            await Member(client, "two").beat(member_epoch=3)


async def test_a_member_whose_connection_ends_is_missed_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-7: a process that dies need not be silent for a whole session. One that comes back in
    time, on another connection, is still a member; one that left is not waited for."""
    monkeypatch.setattr(consumer, "MEMBER_LOST_MS_MAX", 1)
    async with running() as (broker, client):
        await client.create("orders", 2)
        one = Member(client, "one")
        await one.beat()
        async with another_client(broker) as dying:
            two = Member(dying, "two")
            await two.beat()
            left = Member(dying, "three")
            await left.beat()
            await left.beat(member_epoch=-1)
        async with asyncio.timeout(10):
            while len((await describe(client)).members) > 1:
                await asyncio.sleep(0)
        await one.beat()
        assert one.owned == {"orders": [0, 1]}
        two.client = client
        with pytest.raises(UnknownMember):
            await two.beat()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group": ""}, InvalidGroup),
        ({"group": "x" * 300}, InvalidGroup),
        ({"member_id": ""}, InvalidRequest),
        ({"member_id": "x" * 1000}, InvalidRequest),
        ({"member_epoch": -3}, UnknownMember),
        ({"member_epoch": -2}, UnknownMember),
        ({"is_full": False}, InvalidRequest),
        ({"instance_id": ""}, InvalidRequest),
        ({"assignor": "best"}, UnsupportedAssignor),
        ({"topics": ["x"] * (NAMES_PER_CALL_MAX + 1)}, InvalidRequest),
        ({"owned": owned_topics({"orders": [0]})}, InvalidRequest),
        ({"owned": owned_topics({"orders": [0] * (NAMES_PER_CALL_MAX + 1)})}, InvalidRequest),
        (
            {"assignor": "manual", "claims": owned_topics({"orders": [4_000_000_000]})},
            UnknownTopic,
        ),
        ({"point_to_point": True, "topics": ["nowhere"]}, UnknownTopic),
    ],
)
async def test_senseless_heartbeats(changes: dict[str, Any], error: type[Exception]) -> None:
    async with running() as (_, client):
        await client.create("orders")
        with pytest.raises(error):
            await Member(client, "one").beat(**changes)
        listed, _ = await client.channel.call(calls.LIST_GROUPS, pb.ListGroupsRequest())
        assert not listed.groups


async def test_one_connection_speaks_for_so_many_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred thousand subscriptions of one client are refused, with what to do about it."""
    monkeypatch.setattr(group_members, "MEMBERSHIPS_PER_CONNECTION_MAX", 2)
    async with running() as (_, client):
        await client.create("orders")
        one, two = Member(client, "one"), Member(client, "two", group="other")
        await one.beat()
        await two.beat()
        with pytest.raises(TooManySubscriptions, match="2 members"):
            await Member(client, "three").beat()
        with pytest.raises(TooManySubscriptions, match="2 members"):
            await SharedMember(client, "three").beat()
        await one.beat()
        await one.beat(member_epoch=-1)
        with pytest.raises(UnknownMember):
            await one.beat(member_epoch=-1)
        await Member(client, "three").beat()


async def test_whoever_is_no_member_any_more_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A connection may live for months, and its members come and go."""
    monkeypatch.setattr(group_members, "MEMBERSHIPS_PER_CONNECTION_MAX", 1)
    async with running() as (broker, client):
        await client.create("orders")
        one = Member(client, "one")
        with pytest.raises(UnsupportedAssignor):
            await Member(client, "refused").beat(assignor="best")
        await one.beat()
        async with another_client(broker) as other:
            # It comes back there, and leaves.
            moved = Member(other, "one")
            moved.epoch, moved.owned = one.epoch, one.owned
            await moved.beat(member_epoch=-1)
        await Member(client, "two").beat()


async def test_who_dies_before_it_is_answered_is_missed_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-7: its group has it already, and would keep it for a session."""
    monkeypatch.setattr(consumer, "MEMBER_LOST_MS_MAX", 1)
    monkeypatch.setattr(share, "MEMBER_LOST_MS_MAX", 1)
    monkeypatch.setattr(share, "_HEARTBEAT_INTERVAL_MS_MIN", 1)
    monkeypatch.setattr(share, "_INTERVAL_MS_PER_MEMBER", 0)
    held: list[Callable[[], None]] = []
    closed: list[Session] = []
    append, ended = GroupLog.append, Session._closed

    def hold(log: GroupLog, *arguments: Any) -> None:
        held.append(lambda: append(log, *arguments))

    def note(session: Session, *arguments: Any) -> None:
        ended(session, *arguments)
        closed.append(session)

    async with running() as (broker, client):
        await client.create("orders", 2)
        await Member(client, "one").beat()
        await SharedMember(client, "one").beat()
        for member_type, group in ((Member, "g"), (SharedMember, "s")):
            async with another_client(broker) as dying:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(GroupLog, "append", hold)
                    patch.setattr(Session, "_closed", note)
                    joining = asyncio.ensure_future(member_type(dying, "two").beat())
                    await until(lambda: bool(held))
                    dying.channel.connection.abort()
                    await until(lambda: bool(closed))
                held.pop()()
                closed.clear()
                await asyncio.gather(joining, return_exceptions=True)
            async with asyncio.timeout(10):
                while len((await describe(client, group)).members) != 1:
                    await asyncio.sleep(0)


async def test_a_topic_that_nobody_knows_may_come() -> None:
    async with running() as (_, client):
        one = Member(client, "one", topics=["later"])
        await one.beat()
        assert one.owned == {}
        await client.create("later")
        await one.beat()
        assert one.owned == {"later": [0]}
