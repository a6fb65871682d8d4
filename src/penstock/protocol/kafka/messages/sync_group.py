"""SyncGroup (API 14): the leader's assignment in, each member's part of it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, binary, int16, int32, string


@dataclass(slots=True)
class SyncGroupRequestAssignment:
    member_id: str = string()
    assignment: bytes = binary()


@dataclass(slots=True)
class SyncGroupRequest:
    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(since=3, nullable_since=0, default=None)
    protocol_type: str | None = string(since=5, nullable_since=0, default=None)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None)
    assignments: Sequence[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


@dataclass(slots=True)
class SyncGroupResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    protocol_type: str | None = string(since=5, nullable_since=0, default=None)
    protocol_name: str | None = string(since=5, nullable_since=0, default=None)
    assignment: bytes = binary()
