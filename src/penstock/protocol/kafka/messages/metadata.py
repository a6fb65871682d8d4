"""Metadata (API 3): brokers, topics, and who leads their partitions. Ids of topics since 10."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, string, uuid


@dataclass(slots=True)
class MetadataRequestTopic:
    topic_id: bytes = uuid(since=10)
    name: str | None = string(nullable_since=10)


@dataclass(slots=True)
class MetadataRequest:
    topics: Sequence[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = boolean(since=4, default=1)
    include_cluster_authorized_operations: bool = boolean(since=8, until=10)
    include_topic_authorized_operations: bool = boolean(since=8)


@dataclass(slots=True)
class MetadataResponseBroker:
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(since=1, nullable_since=0, default=None)


@dataclass(slots=True)
class MetadataResponsePartition:
    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(since=7, default=-1)
    replica_nodes: Sequence[int] = array(Kind.INT32)
    isr_nodes: Sequence[int] = array(Kind.INT32)
    offline_replicas: Sequence[int] = array(Kind.INT32, since=5)


@dataclass(slots=True)
class MetadataResponseTopic:
    error_code: int = int16()
    name: str | None = string(nullable_since=12)
    topic_id: bytes = uuid(since=10)
    is_internal: bool = boolean(since=1)
    partitions: Sequence[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(since=8, default=-2147483648)


@dataclass(slots=True)
class MetadataResponse:
    throttle_time_ms: int = int32(since=3)
    brokers: Sequence[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(since=2, nullable_since=0, default=None)
    controller_id: int = int32(since=1, default=-1)
    topics: Sequence[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(since=8, until=10, default=-2147483648)
    error_code: int = int16(since=13)
