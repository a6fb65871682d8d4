"""OffsetCommit (API 8): how far a group has read. Since version 10 topics go by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, int16, int32, int64, string, uuid


@dataclass(slots=True)
class OffsetCommitRequestPartition:
    partition_index: int = int32()
    committed_offset: int = int64()
    committed_leader_epoch: int = int32(since=6, default=-1)
    committed_metadata: str | None = string(nullable_since=0)


@dataclass(slots=True)
class OffsetCommitRequestTopic:
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: Sequence[OffsetCommitRequestPartition] = array(OffsetCommitRequestPartition)


@dataclass(slots=True)
class OffsetCommitRequest:
    group_id: str = string()
    generation_id_or_member_epoch: int = int32(default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(since=7, nullable_since=0, default=None)
    retention_time_ms: int = int64(until=4, default=-1)
    topics: Sequence[OffsetCommitRequestTopic] = array(OffsetCommitRequestTopic)


@dataclass(slots=True)
class OffsetCommitResponsePartition:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class OffsetCommitResponseTopic:
    name: str = string(until=9)
    topic_id: bytes = uuid(since=10)
    partitions: Sequence[OffsetCommitResponsePartition] = array(OffsetCommitResponsePartition)


@dataclass(slots=True)
class OffsetCommitResponse:
    throttle_time_ms: int = int32(since=3)
    topics: Sequence[OffsetCommitResponseTopic] = array(OffsetCommitResponseTopic)
