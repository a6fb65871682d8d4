"""ListGroups (API 16): the groups there are. Since version 4 by state, since 5 by type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, string


@dataclass(slots=True)
class ListGroupsRequest:
    states_filter: Sequence[str] = array(Kind.STRING, since=4)
    types_filter: Sequence[str] = array(Kind.STRING, since=5)


@dataclass(slots=True)
class ListedGroup:
    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(since=4)
    group_type: str = string(since=5)


@dataclass(slots=True)
class ListGroupsResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16()
    groups: Sequence[ListedGroup] = array(ListedGroup)
