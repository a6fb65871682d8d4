"""DeleteGroups (API 42): forget groups that have no members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, string


@dataclass(slots=True)
class DeleteGroupsRequest:
    groups_names: Sequence[str] = array(Kind.STRING)


@dataclass(slots=True)
class DeletableGroupResult:
    group_id: str = string()
    error_code: int = int16()


@dataclass(slots=True)
class DeleteGroupsResponse:
    throttle_time_ms: int = int32()
    results: Sequence[DeletableGroupResult] = array(DeletableGroupResult)
