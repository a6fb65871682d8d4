"""The cluster: its brokers, what they take of the disk, and that nobody is kept out."""

from __future__ import annotations

import os
import shutil
from typing import Final

from penstock.broker.context import Context
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.metadata import controller_id
from penstock.broker.partition import Partition
from penstock.model.errors import InvalidRequest
from penstock.protocol.kafka.errors import ErrorCode
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
        log_dir=os.path.abspath(context.config.data),
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
