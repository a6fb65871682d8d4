"""DescribeGroups (API 15): the state and the members of classic groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, binary, boolean, int16, int32, string


@dataclass(slots=True)
class DescribeGroupsRequest:
    groups: Sequence[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean(since=3)


@dataclass(slots=True)
class DescribedGroupMember:
    member_id: str = string()
    group_instance_id: str | None = string(since=4, nullable_since=0, default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = binary()
    member_assignment: bytes = binary()


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(since=6, nullable_since=0, default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: Sequence[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(since=3, default=-2147483648)


@dataclass(slots=True)
class DescribeGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
