"""DescribeProducers (API 61): who produces to a partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, int64, string


@dataclass(slots=True)
class TopicRequest:
    name: str = string()
    partition_indexes: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class DescribeProducersRequest:
    topics: Sequence[TopicRequest] = array(TopicRequest)


@dataclass(slots=True)
class ProducerState:
    producer_id: int = int64()
    producer_epoch: int = int32()
    last_sequence: int = int32(default=-1)
    last_timestamp: int = int64(default=-1)
    coordinator_epoch: int = int32()
    current_txn_start_offset: int = int64(default=-1)


@dataclass(slots=True)
class PartitionResponse:
    partition_index: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    active_producers: Sequence[ProducerState] = array(ProducerState)


@dataclass(slots=True)
class TopicResponse:
    name: str = string()
    partitions: Sequence[PartitionResponse] = array(PartitionResponse)


@dataclass(slots=True)
class DescribeProducersResponse:
    throttle_time_ms: int = int32()
    topics: Sequence[TopicResponse] = array(TopicResponse)
