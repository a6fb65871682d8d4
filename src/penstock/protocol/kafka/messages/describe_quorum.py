"""DescribeQuorum (API 55): who keeps what the cluster consists of, and who leads them (KIP-595)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import (
    array,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)


@dataclass(slots=True)
class DescribeQuorumPartition:
    partition_index: int = int32()


@dataclass(slots=True)
class DescribeQuorumTopic:
    topic_name: str = string()
    partitions: Sequence[DescribeQuorumPartition] = array(DescribeQuorumPartition)


@dataclass(slots=True)
class DescribeQuorumRequest:
    topics: Sequence[DescribeQuorumTopic] = array(DescribeQuorumTopic)


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = int32()
    replica_directory_id: bytes = uuid(since=2)
    log_end_offset: int = int64()
    last_fetch_timestamp: int = int64(since=1, default=-1)
    last_caught_up_timestamp: int = int64(since=1, default=-1)


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable_since=2)
    leader_id: int = int32()
    leader_epoch: int = int32()
    high_watermark: int = int64()
    current_voters: Sequence[ReplicaState] = array(ReplicaState)
    observers: Sequence[ReplicaState] = array(ReplicaState)


@dataclass(slots=True)
class TopicData:
    topic_name: str = string()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class Listener:
    name: str = string()
    host: str = string()
    port: int = uint16()


@dataclass(slots=True)
class Node:
    node_id: int = int32()
    listeners: Sequence[Listener] = array(Listener)


@dataclass(slots=True)
class DescribeQuorumResponse:
    error_code: int = int16()
    error_message: str | None = string(since=2, nullable_since=2)
    topics: Sequence[TopicData] = array(TopicData)
    nodes: Sequence[Node] = array(Node, since=2)
