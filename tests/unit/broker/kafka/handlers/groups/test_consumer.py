"""Consumer groups of the next generation protocol in Kafka's words (KIP-848)."""

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
from penstock.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from penstock.protocol.kafka.messages.describe_groups import DescribeGroupsRequest
from penstock.protocol.kafka.messages.list_groups import ListGroupsRequest
from tests.kit.broker.kafka_client import KafkaClient, connect
from tests.kit.broker.running import running
from tests.kit.simulated_disk import SimulatedDisk


@contextlib.asynccontextmanager
async def set_up(**settings: Any) -> AsyncIterator[tuple[KafkaClient, bytes]]:
    """A client, and the id of the topic "orders" of two partitions."""
    async with running(**settings) as (broker, native):
        await native.create("orders", partitions=2)
        topic_id = bytes.fromhex((await native.describe("orders")).id)
        client = await connect(broker)
        yield client, topic_id
        await client.close()


async def beat(client: KafkaClient, member_epoch: int, version: int = 1, **changes: Any) -> Any:
    settings: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": member_epoch}
    if member_epoch == 0:
        settings |= {
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": ["orders"],
            "topic_partitions": [],
        }
    request = ConsumerGroupHeartbeatRequest(**(settings | changes))
    return await client.call(apis.CONSUMER_GROUP_HEARTBEAT, version, request)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_member_joins_stays_and_leaves(version: int) -> None:
    """R-DEL-4."""
    async with set_up() as (client, topic_id):
        # Before version 1 the broker made the ids of members.
        joined = await beat(client, 0, version, member_id="" if version == 0 else "m")
        assert (joined.error_code, joined.error_message) == (ErrorCode.NONE, None)
        assert joined.member_id
        assert joined.heartbeat_interval_ms == 5_000
        [assigned] = joined.assignment.topic_partitions
        assert (assigned.topic_id, list(assigned.partitions)) == (topic_id, [0, 1])
        stays = await beat(client, joined.member_epoch, version, member_id=joined.member_id)
        assert (stays.error_code, stays.assignment) == (ErrorCode.NONE, None)
        left = await beat(client, -1, version, member_id=joined.member_id)
        assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)


async def test_a_member_says_what_it_owns() -> None:
    async with set_up() as (client, topic_id):
        joined = await beat(client, 0)
        owned = [TopicPartitions(topic_id, [1, 0, 1])]
        stays = await beat(client, joined.member_epoch, topic_partitions=owned)
        assert stays.error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"member_epoch": 0, "member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 0, "server_assignor": "best"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"member_epoch": 0, "group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"member_epoch": 0, "subscribed_topic_regex": "a("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 5}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
async def test_heartbeats_that_are_refused(changes: dict[str, Any], code: ErrorCode) -> None:
    async with set_up() as (client, _):
        response = await beat(client, **changes)
        assert response.error_code == code
        assert response.error_message


async def test_a_zombie_is_fenced() -> None:
    async with set_up() as (client, _):
        joined = await beat(client, 0)
        response = await beat(client, joined.member_epoch + 1)
        assert response.error_code == ErrorCode.FENCED_MEMBER_EPOCH
        response = await beat(client, joined.member_epoch, member_id="other")
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_members_go_on_after_a_crash_of_the_broker() -> None:
    """R-DEL-4: with the epochs they had."""
    disk = SimulatedDisk()
    async with set_up(disk=disk.root) as (client, _):
        joined = await beat(client, 0)
        crashed = disk.after_crash("lost")
    async with running(crashed.root) as (broker, _):
        client = await connect(broker)
        stays = await beat(client, joined.member_epoch)
        assert (stays.error_code, stays.member_epoch) == (ErrorCode.NONE, joined.member_epoch)
        await client.close()


@pytest.mark.parametrize("version", [0, 1])
async def test_groups_are_described(version: int) -> None:
    async with set_up() as (client, topic_id):
        joined = await beat(client, 0, instance_id="instance", rack_id="rack")
        request = ConsumerGroupDescribeRequest(["g", "nobody", "g"])
        response = await client.call(apis.CONSUMER_GROUP_DESCRIBE, version, request)
        group, nobody = response.groups
        assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert nobody.error_message
        assert (group.error_code, group.group_state) == (ErrorCode.NONE, "Stable")
        assert group.group_epoch == group.assignment_epoch == joined.member_epoch
        assert group.assignor_name == "uniform"
        [member] = group.members
        assert (member.member_id, member.client_id) == (joined.member_id, "test")
        assert (member.instance_id, member.rack_id) == ("instance", "rack")
        assert member.client_host == "/127.0.0.1"
        assert list(member.subscribed_topic_names) == ["orders"]
        assert member.member_type == (1 if version >= 1 else -1)
        for told in (member.assignment, member.target_assignment):
            [topic] = told.topic_partitions
            assert (topic.topic_id, topic.topic_name) == (topic_id, "orders")
            assert list(topic.partitions) == [0, 1]


async def test_it_is_listed_as_what_it_is() -> None:
    """And DescribeGroups, which is for classic groups, does not find it."""
    async with set_up() as (client, _):
        await beat(client, 0)
        response = await client.call(apis.LIST_GROUPS, 5, ListGroupsRequest())
        [listed] = response.groups
        assert (listed.group_id, listed.protocol_type) == ("g", "consumer")
        assert (listed.group_state, listed.group_type) == ("Stable", "consumer")
        described = await client.call(apis.DESCRIBE_GROUPS, 6, DescribeGroupsRequest(["g"]))
        assert described.groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_new_partition_reaches_the_members() -> None:
    async with running() as (broker, native):
        await native.create("orders", partitions=1)
        client = await connect(broker)
        joined = await beat(client, 0)
        request = pb.AddPartitionsRequest(name="orders", total=3)
        await native.channel.call(calls.ADD_PARTITIONS, request)
        stays = await beat(client, joined.member_epoch)
        assert stays.member_epoch > joined.member_epoch
        [assigned] = stays.assignment.topic_partitions
        assert list(assigned.partitions) == [0, 1, 2]
        await client.close()
