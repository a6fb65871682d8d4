"""AlterPartitionReassignments (API 45): let partitions be on other brokers, or stay (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, string


@dataclass(slots=True)
class ReassignablePartition:
    partition_index: int = int32()
    replicas: Sequence[int] | None = array(Kind.INT32, nullable_since=0, default=None)


@dataclass(slots=True)
class ReassignableTopic:
    name: str = string()
    partitions: Sequence[ReassignablePartition] = array(ReassignablePartition)


@dataclass(slots=True)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60000)
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    topics: Sequence[ReassignableTopic] = array(ReassignableTopic)


@dataclass(slots=True)
class ReassignablePartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class ReassignableTopicResponse:
    name: str = string()
    partitions: Sequence[ReassignablePartitionResponse] = array(ReassignablePartitionResponse)


@dataclass(slots=True)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: int = int32()
    allow_replication_factor_change: bool = boolean(since=1, default=True)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    responses: Sequence[ReassignableTopicResponse] = array(ReassignableTopicResponse)
