"""ShareAcknowledge (API 79): what became of leased records (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.messages.fetch import NodeEndpoint
from penstock.protocol.kafka.messages.share_fetch import AcknowledgementBatch, LeaderIdAndEpoch
from penstock.protocol.kafka.schema import (
    array,
    boolean,
    int16,
    int32,
    string,
    struct,
    uuid,
)


@dataclass(slots=True)
class AcknowledgePartition:
    partition_index: int = int32()
    acknowledgement_batches: Sequence[AcknowledgementBatch] = array(AcknowledgementBatch)


@dataclass(slots=True)
class AcknowledgeTopic:
    topic_id: bytes = uuid()
    partitions: Sequence[AcknowledgePartition] = array(AcknowledgePartition)


@dataclass(slots=True)
class ShareAcknowledgeRequest:
    group_id: str | None = string(nullable_since=0, default=None)
    member_id: str | None = string(nullable_since=0)
    share_session_epoch: int = int32()
    is_renew_ack: bool = boolean(since=2)
    topics: Sequence[AcknowledgeTopic] = array(AcknowledgeTopic)


@dataclass(slots=True)
class PartitionData:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch = struct(LeaderIdAndEpoch)


@dataclass(slots=True)
class ShareAcknowledgeTopicResponse:
    topic_id: bytes = uuid()
    partitions: Sequence[PartitionData] = array(PartitionData)


@dataclass(slots=True)
class ShareAcknowledgeResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    acquisition_lock_timeout_ms: int = int32(since=2)
    responses: Sequence[ShareAcknowledgeTopicResponse] = array(ShareAcknowledgeTopicResponse)
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint)
