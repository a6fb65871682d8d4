"""InitProducerId (API 22): a number for an idempotent producer. Version 6 is not stable yet."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.protocol.kafka.schema import int16, int32, int64, string


@dataclass(slots=True)
class InitProducerIdRequest:
    transactional_id: str | None = string(nullable_since=0)
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(since=3, default=-1)
    producer_epoch: int = int16(since=3, default=-1)


@dataclass(slots=True)
class InitProducerIdResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
