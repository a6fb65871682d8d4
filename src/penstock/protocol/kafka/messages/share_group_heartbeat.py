"""ShareGroupHeartbeat (API 76): all a member of a share group says to its coordinator (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.messages.consumer_group_heartbeat import Assignment
from penstock.protocol.kafka.schema import Kind, array, int16, int32, string, struct


@dataclass(slots=True)
class ShareGroupHeartbeatRequest:
    group_id: str = string()
    member_id: str = string()
    member_epoch: int = int32()
    rack_id: str | None = string(nullable_since=0, default=None)
    subscribed_topic_names: Sequence[str] | None = array(
        Kind.STRING, nullable_since=0, default=None
    )


@dataclass(slots=True)
class ShareGroupHeartbeatResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    member_id: str | None = string(nullable_since=0, default=None)
    member_epoch: int = int32()
    heartbeat_interval_ms: int = int32()
    assignment: Assignment | None = struct(Assignment, nullable_since=0)
