"""DescribeShareGroupOffsets (API 90): where share groups stand in partitions (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, int64, string, uuid


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestTopic:
    topic_name: str = string()
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequestGroup:
    group_id: str = string()
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = array(
        DescribeShareGroupOffsetsRequestTopic, nullable_since=0
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsRequest:
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = array(
        DescribeShareGroupOffsetsRequestGroup
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponsePartition:
    partition_index: int = int32()
    start_offset: int = int64()
    leader_epoch: int = int32()
    lag: int = int64(since=1, default=-1)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: bytes = uuid()
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = array(
        DescribeShareGroupOffsetsResponsePartition
    )


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponseGroup:
    group_id: str = string()
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = array(
        DescribeShareGroupOffsetsResponseTopic
    )
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class DescribeShareGroupOffsetsResponse:
    throttle_time_ms: int = int32()
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = array(
        DescribeShareGroupOffsetsResponseGroup
    )
