"""DescribeQuorum: who keeps the facts, and what has no quorum."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.describe_quorum import (
    DescribeQuorumPartition,
    DescribeQuorumRequest,
    DescribeQuorumTopic,
)
from tests.kit.broker.kafka_client import kafka_running


def asked(topic: str, *partitions: int) -> DescribeQuorumRequest:
    numbers = [DescribeQuorumPartition(number) for number in partitions]
    topics = [DescribeQuorumTopic(topic, numbers)]
    return DescribeQuorumRequest(topics)


@pytest.mark.parametrize("version", range(3))
async def test_a_broker_on_its_own_is_its_own_quorum(version: int) -> None:
    async with kafka_running(broker_id=3) as (broker, client):
        request = asked("__cluster_metadata", 0)
        response = await client.call(apis.DESCRIBE_QUORUM, version, request)
        assert response.error_code == ErrorCode.NONE
        [[partition]] = [topic.partitions for topic in response.topics]
        [voter] = partition.current_voters
        assert partition.leader_id == voter.replica_id == 3
        assert partition.high_watermark == voter.log_end_offset > 0
        assert list(partition.observers) == []
        if version == 2:
            [node] = response.nodes
            [listener] = node.listeners
            assert f"{listener.host}:{listener.port}" == broker.addresses[0]


@pytest.mark.parametrize(("topic", "partition"), [("orders", 0), ("__cluster_metadata", 1)])
async def test_nothing_else_has_one(topic: str, partition: int) -> None:
    async with kafka_running() as (_, client):
        response = await client.call(apis.DESCRIBE_QUORUM, 2, asked(topic, partition))
        [[refused]] = [topic.partitions for topic in response.topics]
        assert refused.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_partitions_are_counted() -> None:
    async with kafka_running() as (_, client):
        for count, code in ((10_000, ErrorCode.NONE), (10_001, ErrorCode.INVALID_REQUEST)):
            request = asked("orders", *range(count))
            response = await client.call(apis.DESCRIBE_QUORUM, 2, request)
            assert response.error_code == code
        assert "names 10001 partitions" in response.error_message
        assert list(response.topics) == []
