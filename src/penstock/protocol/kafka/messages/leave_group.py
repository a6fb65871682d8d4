"""LeaveGroup (API 13): members leave a classic group. Since version 3 several at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, int16, int32, string


@dataclass(slots=True)
class MemberIdentity:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0, default=None)
    reason: str | None = string(since=5, nullable_since=0, default=None)


@dataclass(slots=True)
class LeaveGroupRequest:
    group_id: str = string()
    member_id: str = string(until=2)
    members: Sequence[MemberIdentity] = array(MemberIdentity, since=3)


@dataclass(slots=True)
class MemberResponse:
    member_id: str = string()
    group_instance_id: str | None = string(nullable_since=0)
    error_code: int = int16()


@dataclass(slots=True)
class LeaveGroupResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    members: Sequence[MemberResponse] = array(MemberResponse, since=3)
