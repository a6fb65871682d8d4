"""Heartbeat (API 12): a member of a classic group is alive."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.kafka.schema import int16, int32, string


@dataclass(slots=True)
class HeartbeatRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)


@dataclass(slots=True)
class HeartbeatResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
