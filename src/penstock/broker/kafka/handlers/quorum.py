"""DescribeQuorum: who keeps the facts of the cluster, as Kafka's tools ask for it (KIP-595).

Kafka's quorum keeps them in a topic; ours has no topic, and answers to the name of Kafka's.
"""

from __future__ import annotations

from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumTopic,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)
from penstock.registry.image import ClusterImage
from penstock.registry.quorum import Quorum

_TOPIC: Final = "__cluster_metadata"
_UNKNOWN: Final = -1


async def describe_quorum(context: Context, call: Call) -> DescribeQuorumResponse:
    request: DescribeQuorumRequest = call.request
    check_count("topics", len(request.topics))
    check_count("partitions", sum(len(topic.partitions) for topic in request.topics))
    if [(topic.topic_name, _numbers(topic)) for topic in request.topics] != [(_TOPIC, [0])]:
        return DescribeQuorumResponse(error_message=None, topics=_refused(request))
    quorum = await context.registry.describe_quorum()
    partition = _described(quorum, context.registry.image)
    return DescribeQuorumResponse(
        error_message=None,
        topics=[TopicData(_TOPIC, [partition])],
        nodes=[
            Node(voter.id, [Listener("PLAINTEXT", *host_and_port(voter.address))])
            for voter in quorum.voters
        ],
    )


def _numbers(topic: DescribeQuorumTopic) -> list[int]:
    return [partition.partition_index for partition in topic.partitions]


def _refused(request: DescribeQuorumRequest) -> list[TopicData]:
    return [
        TopicData(
            topic.topic_name,
            [
                PartitionData(
                    number,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"Only {_TOPIC}-0 has a quorum that can be described here.",
                )
                for number in _numbers(topic)
            ],
        )
        for topic in request.topics
    ]


def _described(quorum: Quorum, image: ClusterImage) -> PartitionData:
    """Brokers that run no server of the quorum follow it; how far they are only they know."""
    servers = {(voter.id, voter.address) for voter in quorum.voters}
    return PartitionData(
        partition_index=0,
        error_message=None,
        leader_id=quorum.leader,
        leader_epoch=quorum.term,
        high_watermark=quorum.commit_offset,
        current_voters=[
            ReplicaState(voter.id, log_end_offset=voter.end_offset) for voter in quorum.voters
        ],
        observers=[
            ReplicaState(broker.id, log_end_offset=_UNKNOWN)
            for broker in image.brokers.values()
            if (broker.id, broker.address) not in servers
        ],
    )
