"""Produce (API 0): record batches into partitions. Since version 13 topics go by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.codec import Payload
from penstock.protocol.kafka.messages.fetch import LeaderIdAndEpoch, NodeEndpoint
from penstock.protocol.kafka.schema import array, int16, int32, int64, records, string, struct, uuid


@dataclass(slots=True)
class PartitionProduceData:
    index: int = int32()
    records: memoryview | Payload | None = records()


@dataclass(slots=True)
class TopicProduceData:
    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_data: Sequence[PartitionProduceData] = array(PartitionProduceData)


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None = string(nullable_since=0, default=None)
    acks: int = int16()
    timeout_ms: int = int32()
    topic_data: Sequence[TopicProduceData] = array(TopicProduceData)


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class PartitionProduceResponse:
    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(since=5, default=-1)
    record_errors: Sequence[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = string(since=8, nullable_since=0, default=None)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, since=10, tag=0)


@dataclass(slots=True)
class TopicProduceResponse:
    name: str = string(until=12)
    topic_id: bytes = uuid(since=13)
    partition_responses: Sequence[PartitionProduceResponse] = array(PartitionProduceResponse)


@dataclass(slots=True)
class ProduceResponse:
    responses: Sequence[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: Sequence[NodeEndpoint] = array(NodeEndpoint, since=10, tag=0)
