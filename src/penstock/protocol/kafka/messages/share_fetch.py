"""ShareFetch (API 78): leased records out of partitions, and what became of earlier ones
(KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.codec import Payload
from penstock.protocol.kafka.messages.fetch import NodeEndpoint
from penstock.protocol.kafka.schema import (
    Kind,
    array,
    boolean,
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
class AcknowledgementBatch:
    first_offset: int = int64()
    last_offset: int = int64()
    acknowledge_types: Sequence[int] = array(Kind.INT8)


@dataclass(slots=True)
class FetchPartition:
    partition_index: int = int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)


@dataclass(slots=True)
class FetchTopic:
    topic_id: bytes = uuid()
    partitions: Sequence[FetchPartition] = array(FetchPartition)


@dataclass(slots=True)
class ForgottenTopic:
    topic_id: bytes = uuid()
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class ShareFetchRequest:
    group_id: str | None = string(nullable_since=0, default=None)
    member_id: str | None = string(nullable_since=0)
    share_session_epoch: int = int32()
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=0x7FFFFFFF)
    max_records: int = int32()
    batch_size: int = int32()
    share_acquire_mode: int = int8(since=2)
    is_renew_ack: bool = boolean(since=2)
    topics: Sequence[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: Sequence[ForgottenTopic] = array(ForgottenTopic)


@dataclass(slots=True)
class LeaderIdAndEpoch:
    leader_id: int = int32()
    leader_epoch: int = int32()


@dataclass(slots=True)
class AcquiredRecords:
    first_offset: int = int64()
    last_offset: int = int64()
    delivery_count: int = int16()


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    acknowledge_error_code: int = int16()
    acknowledge_error_message: str | None = string(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)
    records: memoryview | Payload = records(nullable=False)
    acquired_records: Sequence[AcquiredRecords] = array(AcquiredRecords)


@dataclass(slots=True)
class ShareFetchableTopicResponse:
    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class ShareFetchResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = int32()
    responses: Sequence[ShareFetchableTopicResponse] = array(ShareFetchableTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
