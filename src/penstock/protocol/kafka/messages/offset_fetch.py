"""OffsetFetch (API 9): how far a group has read. Since version 8 for several groups at once, since
10 with topics by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, int64, string, uuid


@dataclass(slots=True)
class OffsetFetchRequestTopic:
    name: str = string(until=7)
    partition_indexes: Sequence[int] = array(Kind.INT32, until=7)


@dataclass(slots=True)
class OffsetFetchRequestTopics:
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partition_indexes: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class OffsetFetchRequestGroup:
    group_id: str = string()
    member_id: str | None = string(since=9, nullable_since=0, default=None)
    member_epoch: int = int32(since=9, default=-1)
    topics: Sequence[OffsetFetchRequestTopics] | None = array(
        OffsetFetchRequestTopics, nullable_since=0
    )


@dataclass(slots=True)
class OffsetFetchRequest:
    group_id: str = string(until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = array(
        OffsetFetchRequestTopic, until=7, nullable_since=2
    )
    groups: Sequence[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, since=8)
    require_stable: bool = boolean(since=7)


@dataclass(slots=True)
class OffsetFetchResponsePartition:
    partition_index: int = int32(until=7)
    committed_offset: int = int64(until=7)
    committed_leader_epoch: int = int32(since=5, until=7, default=-1)
    metadata: str | None = string(until=7, nullable_since=0)
    error_code: int = int16(until=7)


@dataclass(slots=True)
class OffsetFetchResponseTopic:
    name: str = string(until=7)
    partitions: Sequence[OffsetFetchResponsePartition] = array(
        OffsetFetchResponsePartition, until=7
    )


@dataclass(slots=True)
class OffsetFetchResponsePartitions:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(default=-1)
    metadata: str | None = string(nullable_since=0)
    error_code: int = int16()


@dataclass(slots=True)
class OffsetFetchResponseTopics:
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: Sequence[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions)


@dataclass(slots=True)
class OffsetFetchResponseGroup:
    group_id: str = string()
    topics: Sequence[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics)
    error_code: int = int16()


@dataclass(slots=True)
class OffsetFetchResponse:
    throttle_time_ms: int = int32(since=3)
    topics: Sequence[OffsetFetchResponseTopic] = array(OffsetFetchResponseTopic, until=7)
    error_code: int = int16(since=2, until=7)
    groups: Sequence[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, since=8)
