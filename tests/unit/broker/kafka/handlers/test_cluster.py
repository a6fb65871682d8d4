"""The cluster and its disks, as tools ask for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.kafka.messages.describe_acls import DescribeAclsRequest
from penstock.protocol.kafka.messages.describe_cluster import DescribeClusterRequest
from penstock.protocol.kafka.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from penstock.storage.files.os_files import OsDirectory
from tests.kit.broker.kafka_client import kafka_running
from tests.kit.broker.kafka_talk import codes, create, fill
from tests.kit.broker.running import batch


@pytest.mark.parametrize("version", range(3))
async def test_the_brokers_of_the_cluster(version: int) -> None:
    async with kafka_running(broker_id=3) as (broker, client):
        response = await client.call(apis.DESCRIBE_CLUSTER, version, DescribeClusterRequest())
        assert response.error_code == ErrorCode.NONE
        assert response.cluster_id
        assert response.controller_id == 3
        (here,) = response.brokers
        assert (here.broker_id, f"{here.host}:{here.port}") == (3, broker.addresses[0])


async def test_controllers_are_not_asked_for_here() -> None:
    async with kafka_running() as (_, client):
        request = DescribeClusterRequest(endpoint_type=2)
        response = await client.call(apis.DESCRIBE_CLUSTER, 1, request)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message


@pytest.mark.parametrize("version", range(1, 6))
async def test_partitions_and_their_sizes(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client, partitions=2)
        await create(client, "others")
        await fill(client, b"a", b"b")
        wanted = [DescribableLogDirTopic("orders", [0, 9]), DescribableLogDirTopic("nothing", [0])]
        request = DescribeLogDirsRequest(wanted)
        (folder,) = (await client.call(apis.DESCRIBE_LOG_DIRS, version, request)).results
        assert folder.error_code == ErrorCode.NONE
        assert os.path.isabs(folder.log_dir)
        (topic,) = folder.topics
        assert topic.name == "orders"
        (part,) = topic.partitions
        assert (part.partition_index, part.partition_size) == (0, 2 * len(batch([b"a"])))
        assert (part.offset_lag, part.is_future_key) == (0, False)


async def test_all_partitions(tmp_path: Path) -> None:
    """On a real disk there is also how much room it has."""
    async with kafka_running(disk=OsDirectory(str(tmp_path)), data=str(tmp_path)) as (_, client):
        await create(client, partitions=3)
        request = DescribeLogDirsRequest(None)
        (folder,) = (await client.call(apis.DESCRIBE_LOG_DIRS, 4, request)).results
        counts = {topic.name: len(topic.partitions) for topic in folder.topics}
        assert counts["orders"] == 3
        assert folder.log_dir == str(tmp_path)
        assert folder.total_bytes > folder.usable_bytes > 0


async def test_of_copies_that_are_to_move_there_are_no_more_than_names_in_a_call() -> None:
    """The answer has no place for one refusal of all, so the connection ends."""
    async with kafka_running() as (_, client):
        await create(client)
        request = DescribeLogDirsRequest(None)
        (found,) = (await client.call(apis.DESCRIBE_LOG_DIRS, 4, request)).results

        def asked(count: int) -> AlterReplicaLogDirsRequest:
            halves = [list(range(count // 2)), list(range(count // 2, count))]
            topics = [AlterReplicaLogDirTopic("orders", numbers) for numbers in halves]
            return AlterReplicaLogDirsRequest([AlterReplicaLogDir(found.log_dir, topics)])

        response = await client.call(apis.ALTER_REPLICA_LOG_DIRS, 2, asked(10_000))
        (topic,) = response.results
        assert len(topic.partitions) == 10_000
        assert codes(topic.partitions)[:2] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        await client.send(apis.ALTER_REPLICA_LOG_DIRS, 2, asked(10_001))
        assert await client.is_closed()


@pytest.mark.parametrize("version", range(1, 4))
async def test_there_is_no_authorizer_and_tools_are_told_so(version: int) -> None:
    async with kafka_running() as (_, client):
        response = await client.call(apis.DESCRIBE_ACLS, version, DescribeAclsRequest())
        assert response.error_code == ErrorCode.SECURITY_DISABLED
        assert "no authorizer" in response.error_message
