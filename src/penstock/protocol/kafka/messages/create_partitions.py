"""CreatePartitions (API 37): let a topic have more partitions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, string


@dataclass(slots=True)
class CreatePartitionsAssignment:
    broker_ids: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class CreatePartitionsTopic:
    name: str = string()
    count: int = int32()
    assignments: Sequence[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, nullable_since=0
    )


@dataclass(slots=True)
class CreatePartitionsRequest:
    topics: Sequence[CreatePartitionsTopic] = array(CreatePartitionsTopic)
    timeout_ms: int = int32()
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatePartitionsTopicResult:
    name: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class CreatePartitionsResponse:
    throttle_time_ms: int = int32()
    results: Sequence[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult)
