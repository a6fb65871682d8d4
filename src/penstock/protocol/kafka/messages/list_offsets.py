"""ListOffsets (API 2): the offset at a time, at the beginning or at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, int8, int16, int32, int64, string


@dataclass(slots=True)
class ListOffsetsPartition:
    partition_index: int = int32()
    current_leader_epoch: int = int32(since=4, default=-1)
    timestamp: int = int64()


@dataclass(slots=True)
class ListOffsetsTopic:
    name: str = string()
    partitions: Sequence[ListOffsetsPartition] = array(ListOffsetsPartition)


@dataclass(slots=True)
class ListOffsetsRequest:
    replica_id: int = int32()
    isolation_level: int = int8(since=2)
    topics: Sequence[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(since=10)


@dataclass(slots=True)
class ListOffsetsPartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(since=4, default=-1)


@dataclass(slots=True)
class ListOffsetsTopicResponse:
    name: str = string()
    partitions: Sequence[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


@dataclass(slots=True)
class ListOffsetsResponse:
    throttle_time_ms: int = int32(since=2)
    topics: Sequence[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
