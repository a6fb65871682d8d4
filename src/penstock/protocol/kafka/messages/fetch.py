"""Fetch (API 1): record batches out of partitions. Since version 7 in sessions (KIP-227), since
13 with topics by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.codec import Payload
from penstock.protocol.kafka.schema import (
    Kind,
    array,
    int8,
    int16,
    int32,
    int64,
    records,
    string,
    struct,
    uuid,
)


@dataclass(slots=True)
class ReplicaState:
    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


@dataclass(slots=True)
class FetchPartition:
    partition: int = int32()
    current_leader_epoch: int = int32(since=9, default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(since=12, default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(since=17, tag=0)
    high_watermark: int = int64(since=18, tag=1, default=9223372036854775807)


@dataclass(slots=True)
class FetchTopic:
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: Sequence[FetchPartition] = array(FetchPartition)


@dataclass(slots=True)
class ForgottenTopic:
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class FetchRequest:
    cluster_id: str | None = string(since=12, nullable_since=0, tag=0, default=None)
    replica_id: int = int32(until=14, default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, since=15, tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    isolation_level: int = int8()
    session_id: int = int32(since=7)
    session_epoch: int = int32(since=7, default=-1)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic, since=7)
    rack_id: str = string(since=11)


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


@dataclass(slots=True)
class SnapshotId:
    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


@dataclass(slots=True)
class AbortedTransaction:
    producer_id: int = int64()
    first_offset: int = int64()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=12, tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = array(
        AbortedTransaction, nullable_since=0
    )
    preferred_read_replica: int = int32(since=11, default=-1)
    records: memoryview | Payload | None = records()


@dataclass(slots=True)
class FetchableTopicResponse:
    topic: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class NodeEndpoint:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class FetchResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16(since=7)
    session_id: int = int32(since=7)
    responses: Sequence[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=16, tag=0)
