"""Share groups in Kafka's words (KIP-932): heartbeats, descriptions, lists, deletions."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.kafka.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.kafka.messages.list_groups import ListGroupsRequest
from penstock.protocol.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from penstock.protocol.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from penstock.protocol.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.running import RawClient, running
from tests.kit.simulated_disk import SimulatedDisk


@contextlib.asynccontextmanager
async def set_up(**settings: Any) -> AsyncIterator[tuple[KafkaClient, RawClient, bytes]]:
    """A client of each protocol, and the id of the topic "orders" of two partitions."""
    async with running(**settings) as (broker, native):
        await native.create("orders", partitions=2)
        topic_id = bytes.fromhex((await native.describe("orders")).id)
        client = await connect(broker)
        yield client, native, topic_id
        await client.close()


async def beat(client: KafkaClient, member_epoch: int, **changes: Any) -> Any:
    settings: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": member_epoch}
    if member_epoch == 0:
        settings |= {"subscribed_topic_names": ["orders"]}
    request = ShareGroupHeartbeatRequest(**(settings | changes))
    return await client.call(apis.SHARE_GROUP_HEARTBEAT, 1, request)


async def test_a_member_joins_stays_and_leaves() -> None:
    """R-DEL-3"""
    async with set_up() as (client, _, topic_id):
        joined = await beat(client, 0)
        assert (joined.error_code, joined.error_message) == (ErrorCode.NONE, None)
        assert joined.member_id == "m"
        [assigned] = joined.assignment.topic_partitions
        assert (assigned.topic_id, list(assigned.partitions)) == (topic_id, [0, 1])
        other = await beat(client, 0, member_id="n")
        [assigned] = other.assignment.topic_partitions
        assert list(assigned.partitions) == [1]
        stays = await beat(client, joined.member_epoch)
        assert (stays.error_code, stays.member_epoch) == (ErrorCode.NONE, other.member_epoch)
        [assigned] = stays.assignment.topic_partitions
        assert list(assigned.partitions) == [0]
        assert (await beat(client, stays.member_epoch)).assignment is None
        left = await beat(client, -1)
        assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_epoch": 0, "member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0, "group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_epoch": 0, "subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0, "rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 5}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_heartbeats_that_are_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    async with set_up() as (client, _, _):
        response = await beat(client, **changes)
        assert response.error_code == code
        assert response.error_message


async def test_a_zombie_is_fenced() -> None:
    async with set_up() as (client, _, _):
        joined = await beat(client, 0)
        response = await beat(client, joined.member_epoch + 1)
        assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH


async def test_members_go_on_after_a_crash_of_the_broker() -> None:
    """R-DEL-3: with the epochs they had."""
    disk = SimulatedDisk()
    async with set_up(disk=disk.root) as (client, _, _):
        joined = await beat(client, 0)
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (broker, _):
        client = await connect(broker)
        stays = await beat(client, joined.member_epoch)
        assert (stays.error_code, stays.member_epoch) == (ErrorCode.NONE, joined.member_epoch)
        await client.close()


async def test_groups_are_described() -> None:
    async with set_up() as (client, _, topic_id):
        joined = await beat(client, 0, rack_id="rack")
        request = ShareGroupDescribeRequest(["g", "nobody", "g"])
        response = await client.call(apis.SHARE_GROUP_DESCRIBE, 1, request)
        group, nobody = response.groups
        assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
        assert group.group_epoch == group.assignment_epoch == joined.member_epoch
        [member] = group.members
        assert (member.member_id, member.rack_id, member.member_epoch) == ("m", "rack", 1)
        assert member.client_host == "/127.0.0.1"
        assert list(member.subscribed_topic_names) == ["orders"]
        [assigned] = member.assignment.topic_partitions
        assert (assigned.topic_id, assigned.topic_name) == (topic_id, "orders")
        assert list(assigned.partitions) == [0, 1]


async def test_groups_of_other_kinds_are_told_apart() -> None:
    """A name is one kind of group at a time."""
    async with set_up() as (client, native, _):
        await beat(client, 0)
        await native.commit("exclusive", 1)
        response = await client.call(apis.LIST_GROUPS, 5, ListGroupsRequest(types_filter=["Share"]))
        [listed] = response.groups
        assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
            "g",
            "share",
            "Stable",
            "share",
        )
        others = ListGroupsRequest(types_filter=["classic", "consumer"])
        response = await client.call(apis.LIST_GROUPS, 5, others)
        assert [group.group_id for group in response.groups] == ["exclusive"]

        described = await client.call(apis.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(["g"]))
        assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert described.groups[0].group_state == "Dead"
        request = ConsumerGroupDescribeRequest(["g"])
        described = await client.call(apis.CONSUMER_GROUP_DESCRIBE, 1, request)
        assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        refused = await beat(client, 0, group_id="exclusive")
        assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert "not a shared group" in refused.error_message
        joining = JoinGroupRequest(
            "g", 10_000, 10_000, "", None, "consumer", [JoinGroupRequestProtocol("range", b"")]
        )
        joined = await client.call(apis.JOIN_GROUP, 3, joining)
        assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        fetching = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        fetched = await client.call(apis.OFFSET_FETCH, 9, fetching)
        assert fetched.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_is_deleted_when_its_members_have_left() -> None:
    async with set_up() as (client, native, _):
        await beat(client, 0)
        request = DeleteGroupsRequest(["g"])
        response = await client.call(apis.DELETE_GROUPS, 2, request)
        assert response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        await beat(client, -1)
        response = await client.call(apis.DELETE_GROUPS, 2, request)
        assert response.results[0].error_code == ErrorCode.NONE
        listed, _ = await native.channel.call(calls.LIST_GROUPS, pb.ListGroupsRequest())
        assert list(listed.groups) == []
