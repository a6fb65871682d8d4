"""AlterShareGroupOffsets (API 91): let a share group begin elsewhere in partitions (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, int16, int32, int64, string, uuid


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestPartition:
    partition_index: int = int32()
    start_offset: int = int64()


@dataclass(slots=True)
class AlterShareGroupOffsetsRequestTopic:
    topic_name: str = string()
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = array(
        AlterShareGroupOffsetsRequestPartition
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsRequest:
    group_id: str = string()
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = array(AlterShareGroupOffsetsRequestTopic)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class AlterShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = array(
        AlterShareGroupOffsetsResponsePartition
    )


@dataclass(slots=True)
class AlterShareGroupOffsetsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = array(
        AlterShareGroupOffsetsResponseTopic
    )
