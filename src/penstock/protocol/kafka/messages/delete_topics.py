"""DeleteTopics (API 20): delete topics. Since version 6 by id as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, string, uuid


@dataclass(slots=True)
class DeleteTopicState:
    name: str | None = string(nullable_since=0, default=None)
    topic_id: bytes = uuid()


@dataclass(slots=True)
class DeleteTopicsRequest:
    topics: Sequence[DeleteTopicState] = array(DeleteTopicState, since=6)
    topic_names: Sequence[str] = array(Kind.STRING, until=5)
    timeout_ms: int = int32()


@dataclass(slots=True)
class DeletableTopicResult:
    name: str | None = string(nullable_since=6)
    topic_id: bytes = uuid(since=6)
    error_code: int = int16()
    error_message: str | None = string(since=5, nullable_since=0, default=None)


@dataclass(slots=True)
class DeleteTopicsResponse:
    throttle_time_ms: int = int32()
    responses: Sequence[DeletableTopicResult] = array(DeletableTopicResult)
