"""FindCoordinator (API 10): which broker looks after a group. Since version 4 for several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int8, int16, int32, string


@dataclass(slots=True)
class FindCoordinatorRequest:
    key: str = string(until=3)
    key_type: int = int8(since=1)
    coordinator_keys: Sequence[str] = array(Kind.STRING, since=4)


@dataclass(slots=True)
class Coordinator:
    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@dataclass(slots=True)
class FindCoordinatorResponse:
    throttle_time_ms: int = int32(since=1)
    error_code: int = int16(until=3)
    error_message: str | None = string(since=1, until=3, nullable_since=0)
    node_id: int = int32(until=3)
    host: str = string(until=3)
    port: int = int32(until=3)
    coordinators: Sequence[Coordinator] = array(Coordinator, since=4)
