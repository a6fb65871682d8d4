"""CreateTopics (API 19): make topics, with their settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int8, int16, int32, string, uuid


@dataclass(slots=True)
class CreatableReplicaAssignment:
    partition_index: int = int32()
    broker_ids: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class CreatableTopicConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@dataclass(slots=True)
class CreatableTopic:
    name: str = string()
    num_partitions: int = int32()
    replication_factor: int = int16()
    assignments: Sequence[CreatableReplicaAssignment] = array(CreatableReplicaAssignment)
    configs: Sequence[CreatableTopicConfig] = array(CreatableTopicConfig)


@dataclass(slots=True)
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = array(CreatableTopic)
    timeout_ms: int = int32(default=60000)
    validate_only: bool = boolean()


@dataclass(slots=True)
class CreatableTopicConfigs:
    name: str = string()
    value: str | None = string(nullable_since=0)
    read_only: bool = boolean()
    config_source: int = int8(default=-1)
    is_sensitive: bool = boolean()


@dataclass(slots=True)
class CreatableTopicResult:
    name: str = string()
    topic_id: bytes = uuid(since=7)
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    topic_config_error_code: int = int16(since=5, tag=0)
    num_partitions: int = int32(since=5, default=-1)
    replication_factor: int = int16(since=5, default=-1)
    configs: Sequence[CreatableTopicConfigs] | None = array(
        CreatableTopicConfigs, since=5, nullable_since=0
    )


@dataclass(slots=True)
class CreateTopicsResponse:
    throttle_time_ms: int = int32()
    topics: Sequence[CreatableTopicResult] = array(CreatableTopicResult)
