"""ListPartitionReassignments (API 46): which partitions are on their way (KIP-455)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, string


@dataclass(slots=True)
class ListPartitionReassignmentsTopics:
    name: str = string()
    partition_indexes: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class ListPartitionReassignmentsRequest:
    timeout_ms: int = int32(default=60000)
    topics: Sequence[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, nullable_since=0
    )


@dataclass(slots=True)
class OngoingPartitionReassignment:
    partition_index: int = int32()
    replicas: Sequence[int] = array(Kind.INT32)
    adding_replicas: Sequence[int] = array(Kind.INT32)
    removing_replicas: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class OngoingTopicReassignment:
    name: str = string()
    partitions: Sequence[OngoingPartitionReassignment] = array(OngoingPartitionReassignment)


@dataclass(slots=True)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    topics: Sequence[OngoingTopicReassignment] = array(OngoingTopicReassignment)
