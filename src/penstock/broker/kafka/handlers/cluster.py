"""The cluster: its brokers, what they take of the disk, and that nobody is kept out."""

from __future__ import annotations

import os
import shutil
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.metadata import controller_id
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import InvalidRequest, PenstockError
from penstock.model.ids import check_topic_name
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.kafka.messages.describe_acls import DescribeAclsResponse
from penstock.protocol.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from penstock.protocol.kafka.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

# The endpoint type of DescribeCluster that stands for brokers; 2 stands for controllers.
_BROKERS: Final = 1


def describe_cluster(context: Context, call: Call) -> DescribeClusterResponse:
    request: DescribeClusterRequest = call.request
    if request.endpoint_type != _BROKERS:
        raise InvalidRequest("Only brokers can be asked for here (endpoint type 1).")
    image = context.registry.image
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=controller_id(image),
        brokers=[
            DescribeClusterBroker(broker.id, *host_and_port(broker.address))
            for broker in image.brokers.values()
        ],
    )


def describe_acls(context: Context, call: Call) -> DescribeAclsResponse:
    """As a Kafka without an authorizer: tools know this answer, and go on."""
    del context, call
    return DescribeAclsResponse(
        error_code=ErrorCode.SECURITY_DISABLED,
        error_message="This broker has no authorizer: everybody may do everything.",
    )


def describe_log_dirs(context: Context, call: Call) -> DescribeLogDirsResponse:
    request: DescribeLogDirsRequest = call.request
    wanted = None
    if request.topics is not None:
        wanted = {(topic.topic, number) for topic in request.topics for number in topic.partitions}
    found: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in context.partitions.all():
        if wanted is None or partition.name in wanted:
            found.setdefault(partition.name.topic, []).append(_described(partition))
    result = DescribeLogDirsResult(
        log_dir=_log_dir(context),
        topics=[DescribeLogDirsTopic(name, partitions) for name, partitions in found.items()],
    )
    try:
        usage = shutil.disk_usage(context.config.data)
        result.total_bytes, result.usable_bytes = usage.total, usage.free
    except OSError:  # the folder is elsewhere, as in tests: -1 means that nobody knows
        pass
    return DescribeLogDirsResponse(results=[result])


def _described(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.name.partition,
        partition_size=partition.replica.log.size_bytes,
    )


def alter_replica_log_dirs(context: Context, call: Call) -> AlterReplicaLogDirsResponse:
    """Copies are in the broker's one folder: whoever wants them there has what he wants
    (KIP-113)."""
    request: AlterReplicaLogDirsRequest = call.request
    topics = [topic for folder in request.dirs for topic in folder.topics]
    check_count("topics", len(topics))
    check_count("partitions", sum(len(topic.partitions) for topic in topics))
    results: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for folder in request.dirs:
        for topic in folder.topics:
            results.setdefault(topic.name, []).extend(
                AlterReplicaLogDirPartitionResult(
                    number, _moved(context, topic.name, number, folder.path)
                )
                for number in topic.partitions
            )
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(*result) for result in results.items()]
    )


def _moved(context: Context, topic: str, number: int, path: str) -> ErrorCode:
    if path != _log_dir(context):
        return ErrorCode.LOG_DIR_NOT_FOUND
    try:
        partitions = context.topics.find(check_topic_name(topic)).partitions
    except PenstockError as error:
        return code_of(error)
    if not 0 <= number < len(partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    is_here = context.partitions.get(topic, number) is not None
    return ErrorCode.NONE if is_here else ErrorCode.REPLICA_NOT_AVAILABLE


def _log_dir(context: Context) -> str:
    return os.path.abspath(context.config.data)
