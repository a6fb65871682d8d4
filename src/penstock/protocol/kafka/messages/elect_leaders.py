"""ElectLeaders (API 43): let the preferred brokers lead. Since version 1 also others (KIP-460)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int8, int16, int32, string


@dataclass(slots=True)
class TopicPartitions:
    topic: str = string()
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class ElectLeadersRequest:
    election_type: int = int8(since=1)
    topic_partitions: Sequence[TopicPartitions] | None = array(TopicPartitions, nullable_since=0)
    timeout_ms: int = int32(default=60000)


@dataclass(slots=True)
class PartitionResult:
    partition_id: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class ReplicaElectionResult:
    topic: str = string()
    partition_result: Sequence[PartitionResult] = array(PartitionResult)


@dataclass(slots=True)
class ElectLeadersResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16(since=1)
    replica_election_results: Sequence[ReplicaElectionResult] = array(ReplicaElectionResult)
