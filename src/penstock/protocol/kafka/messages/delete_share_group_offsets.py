"""DeleteShareGroupOffsets (API 92): forget where a share group stands in topics (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, int16, int32, string, uuid


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequestTopic:
    topic_name: str = string()


@dataclass(slots=True)
class DeleteShareGroupOffsetsRequest:
    group_id: str = string()
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = array(
        DeleteShareGroupOffsetsRequestTopic
    )


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponseTopic:
    topic_name: str = string()
    topic_id: bytes = uuid()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)


@dataclass(slots=True)
class DeleteShareGroupOffsetsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = array(
        DeleteShareGroupOffsetsResponseTopic
    )
