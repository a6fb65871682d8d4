"""IncrementalAlterConfigs (API 44): change some settings of topics, brokers, loggers and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.messages.alter_configs import AlterConfigsResourceResponse
from penstock.protocol.kafka.schema import array, boolean, int8, int32, string


@dataclass(slots=True)
class AlterableConfig:
    name: str = string()
    config_operation: int = int8()
    value: str | None = string(nullable_since=0)


@dataclass(slots=True)
class AlterConfigsResource:
    resource_type: int = int8()
    resource_name: str = string()
    configs: Sequence[AlterableConfig] = array(AlterableConfig)


@dataclass(slots=True)
class IncrementalAlterConfigsRequest:
    resources: Sequence[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


@dataclass(slots=True)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = int32()
    responses: Sequence[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
