"""ShareGroupDescribe (API 77): the state and the members of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.messages.consumer_group_describe import Assignment
from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, string, struct


@dataclass(slots=True)
class ShareGroupDescribeRequest:
    group_ids: Sequence[str] = array(Kind.STRING)
    include_authorized_operations: bool = boolean()


@dataclass(slots=True)
class Member:
    member_id: str = string()
    rack_id: str | None = string(nullable_since=0, default=None)
    member_epoch: int = int32()
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: Sequence[str] = array(Kind.STRING)
    assignment: Assignment = struct(Assignment)


@dataclass(slots=True)
class DescribedGroup:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0, default=None)
    group_id: str = string()
    group_state: str = string()
    group_epoch: int = int32()
    assignment_epoch: int = int32()
    assignor_name: str = string()
    members: Sequence[Member] = array(Member)
    authorized_operations: int = int32(default=-2147483648)


@dataclass(slots=True)
class ShareGroupDescribeResponse:
    throttle_time_ms: int = int32()
    groups: Sequence[DescribedGroup] = array(DescribedGroup)
