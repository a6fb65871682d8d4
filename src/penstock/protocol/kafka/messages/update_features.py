"""UpdateFeatures (API 57): let the cluster have other levels of features (KIP-584)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import array, boolean, int8, int16, int32, string


@dataclass(slots=True)
class FeatureUpdateKey:
    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(until=0)
    upgrade_type: int = int8(since=1, default=1)


@dataclass(slots=True)
class UpdateFeaturesRequest:
    timeout_ms: int = int32(default=60_000)
    feature_updates: Sequence[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(since=1)


@dataclass(slots=True)
class UpdatableFeatureResult:
    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)


@dataclass(slots=True)
class UpdateFeaturesResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable_since=0)
    results: Sequence[UpdatableFeatureResult] = array(UpdatableFeatureResult, until=1)
