"""DescribeTopicPartitions (API 75): metadata page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, string, struct, uuid


@dataclass(slots=True)
class TopicRequest:
    name: str = string()


@dataclass(slots=True)
class Cursor:
    topic_name: str = string()
    partition_index: int = int32()


@dataclass(slots=True)
class DescribeTopicPartitionsRequest:
    topics: Sequence[TopicRequest] = array(TopicRequest)
    response_partition_limit: int = int32(default=2000)
    cursor: Cursor | None = struct(Cursor, nullable_since=0)


@dataclass(slots=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(default=-1)
    replica_nodes: Sequence[int] = array(Kind.INT32)
    isr_nodes: Sequence[int] = array(Kind.INT32)
    eligible_leader_replicas: Sequence[int] | None = array(
        Kind.INT32, nullable_since=0, default=None
    )
    last_known_elr: Sequence[int] | None = array(Kind.INT32, nullable_since=0, default=None)
    offline_replicas: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable_since=0)
    topic_id: bytes = uuid()
    is_internal: bool = boolean()
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = array(
        DescribeTopicPartitionsResponsePartition
    )
    topic_authorized_operations: int = int32(default=-2147483648)


@dataclass(slots=True)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = int32()
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = array(
        DescribeTopicPartitionsResponseTopic
    )
    next_cursor: Cursor | None = struct(Cursor, nullable_since=0)
