"""Groups for people and tools, against a real broker: described with their lag, moved, deleted."""

from __future__ import annotations

import pytest

from penstock import connect
from penstock.client.admin.groups import TopicSubscription
from penstock.model.errors import GroupNotEmpty, UnknownGroup, UnknownMember
from penstock.model.ids import TopicPartition
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.kit.broker.kafka_client import connect as connect_kafka
from tests.kit.broker.running import RawClient, batch, running


async def fill(client: RawClient) -> None:
    """Two partitions of "orders" with three messages and one."""
    await client.create("orders", 2)
    await client.produce("orders", batch([b"a", b"b", b"c"]))
    await client.produce("orders", batch([b"d"]), partition=1)


async def test_a_group_is_described_with_its_members_and_its_lag() -> None:
    """R-DEL-4, R-DEL-10: who has what, where the group stands, and what is still to come."""
    async with running() as (broker, client), connect(broker.addresses) as mq:
        await fill(client)
        async with mq.subscribe("orders", group="billing", name="till-1") as consumer:
            await consumer.commit({("orders", 0): 2})
            group = await mq.groups.describe("billing")
            assert (group.name, group.kind, group.state) == ("billing", "consumer", "Stable")
            assert group.assignor == "uniform"
            [member] = group.members
            assert member.name == "till-1"
            assert member.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 1))
            assert [
                (place.committed, place.end, place.lag, place.member_id) for place in group.places
            ] == [(2, 3, 1, member.member_id), (None, 1, 1, member.member_id)]
            assert group.lag == 2
            assert group.topics == ["orders"]
            assert (group.lag_in("orders"), group.lag_in("events")) == (2, 0)
        assert [group.name for group in await mq.groups.describe_all()] == ["billing"]
        [described] = await mq.groups.describe_those(["nobody", "billing"])
        assert described.name == "billing"
        assert await mq.groups.subscriptions() == [
            TopicSubscription(topic="orders", is_point_to_point=False, groups=("billing",))
        ]
        assert await mq.groups.subscriptions("events") == []


async def test_a_group_that_let_go_of_its_place_has_everything_before_it() -> None:
    """R-DEL-10: kafkajs commits -2 where a group is to begin anew; it is no offset."""
    async with running() as (broker, client), connect(broker.addresses) as mq:
        await fill(client)
        kafka = await connect_kafka(broker)
        partitions = [OffsetCommitRequestPartition(0, -2), OffsetCommitRequestPartition(1, 1)]
        topic = OffsetCommitRequestTopic("orders", partitions=partitions)
        await kafka.call(apis.OFFSET_COMMIT, 8, OffsetCommitRequest("billing", topics=[topic]))
        group = await mq.groups.describe("billing")
        assert [(place.committed, place.end, place.lag) for place in group.places] == [
            (None, 3, 3),
            (1, 1, 0),
        ]
        assert await mq.admin.group_offsets("billing") == {("orders", 1): 1}
        await kafka.close()


async def test_a_group_with_members_is_neither_moved_nor_deleted() -> None:
    async with running() as (broker, client), connect(broker.addresses) as mq:
        await fill(client)
        async with mq.subscribe("orders", group="billing", name="till-1"):
            with pytest.raises(GroupNotEmpty, match="till-1"):
                await mq.groups.move("billing", {("orders", 0): 0})
            with pytest.raises(GroupNotEmpty):
                await mq.groups.delete("billing")
            with pytest.raises(UnknownMember, match="only they commit"):
                await mq.admin.commit_offsets("billing", {("orders", 0): 0})
        await mq.groups.move("billing", {("orders", 0): 1, ("orders", 1): 1})
        assert await mq.admin.group_offsets("billing") == {("orders", 0): 1, ("orders", 1): 1}
        await mq.groups.delete("billing")
        with pytest.raises(UnknownGroup, match="billing"):
            await mq.groups.describe("billing")
        await mq.groups.move("new", {("orders", 0): 3})
        assert (await mq.groups.describe("new")).lag == 0
