"""ListConfigResources (API 74): what has settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int8, int16, int32, string


@dataclass(slots=True)
class ListConfigResourcesRequest:
    resource_types: Sequence[int] = array(Kind.INT8, since=1)


@dataclass(slots=True)
class ConfigResource:
    resource_name: str = string()
    resource_type: int = int8(since=1, default=16)


@dataclass(slots=True)
class ListConfigResourcesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: Sequence[ConfigResource] = array(ConfigResource)
