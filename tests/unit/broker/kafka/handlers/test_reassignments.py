"""Reassignments and elections on one broker: every version is answered, nothing is moved."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.kafka.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.kafka.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from tests.kit.broker.kafka_client import kafka_running
from tests.kit.broker.kafka_talk import create


@pytest.mark.parametrize("version", range(2))
async def test_each_partition_is_answered(version: int) -> None:
    """KIP-455."""
    async with kafka_running() as (_, client):
        await create(client, partitions=3)
        wanted = [
            ReassignablePartition(0, [1]),
            ReassignablePartition(1, [1, 2]),
            ReassignablePartition(2, None),
            ReassignablePartition(9, [1]),
            ReassignablePartition(-1, None),
        ]
        request = AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic("orders", wanted),
                ReassignableTopic("others", [ReassignablePartition(0, [1])]),
            ]
        )
        response = await client.call(apis.ALTER_PARTITION_REASSIGNMENTS, version, request)
        assert response.error_code == ErrorCode.NONE
        orders, others = response.responses
        assert [each.error_code for each in orders.partitions] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert "no live broker 2" in orders.partitions[1].error_message
        assert others.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_is_named_twice_is_refused() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        topic = ReassignableTopic("orders", [ReassignablePartition(0, [1])] * 2)
        request = AlterPartitionReassignmentsRequest(topics=[topic])
        response = await client.call(apis.ALTER_PARTITION_REASSIGNMENTS, 1, request)
        codes = [each.error_code for each in response.responses[0].partitions]
        assert codes == [ErrorCode.INVALID_REQUEST] * 2


async def test_the_number_of_replicas_stays_where_that_is_asked_for() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        topic = ReassignableTopic("orders", [ReassignablePartition(0, [1, 2])])
        request = AlterPartitionReassignmentsRequest(
            topics=[topic], allow_replication_factor_change=False
        )
        response = await client.call(apis.ALTER_PARTITION_REASSIGNMENTS, 1, request)
        (answer,) = response.responses[0].partitions
        assert answer.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert response.allow_replication_factor_change is False


async def test_nothing_is_on_its_way() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        named = [ListPartitionReassignmentsTopics(name, [0, 5]) for name in ("orders", "others")]
        for topics in (None, named):
            request = ListPartitionReassignmentsRequest(topics=topics)
            response = await client.call(apis.LIST_PARTITION_REASSIGNMENTS, 0, request)
            assert (response.error_code, list(response.topics)) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", range(3))
@pytest.mark.parametrize("election_type", [0, 1])
async def test_elections_are_not_needed(version: int, election_type: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        request = ElectLeadersRequest(election_type, [TopicPartitions("orders", [0, 4])], 1_000)
        response = await client.call(apis.ELECT_LEADERS, version, request)
        (topic,) = response.replica_election_results
        assert [each.error_code for each in topic.partition_result] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        of_all = ElectLeadersRequest(election_type, None, 1_000)
        response = await client.call(apis.ELECT_LEADERS, version, of_all)
        assert not response.replica_election_results
