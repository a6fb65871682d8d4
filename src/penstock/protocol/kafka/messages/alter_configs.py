"""AlterConfigs (API 33): replace all settings of a topic, a broker or a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, boolean, int8, int16, int32, string


@dataclass(slots=True)
class AlterableConfig:
    name: str = string()
    value: str | None = string(nullable_since=0)


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


@dataclass(slots=True)
class AlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class AlterConfigsResourceResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    resource_type: int = int8()
    resource_name: str = string()


@dataclass(slots=True)
class AlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
