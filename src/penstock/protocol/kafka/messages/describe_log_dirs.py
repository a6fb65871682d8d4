"""DescribeLogDirs (API 35): what the partitions take of the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, boolean, int16, int32, int64, string


@dataclass(slots=True)
class DescribableLogDirTopic:
    topic: str = string()
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class DescribeLogDirsRequest:
    topics: Sequence[DescribableLogDirTopic] | None = array(
        DescribableLogDirTopic, nullable_since=0
    )


@dataclass(slots=True)
class DescribeLogDirsPartition:
    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@dataclass(slots=True)
class DescribeLogDirsTopic:
    name: str = string()
    partitions: Sequence[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@dataclass(slots=True)
class DescribeLogDirsResult:
    error_code: int = int16()
    log_dir: str = string()
    topics: Sequence[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(since=4, default=-1)
    usable_bytes: int = int64(since=4, default=-1)
    is_cordoned: bool = boolean(since=5)


@dataclass(slots=True)
class DescribeLogDirsResponse:
    throttle_time_ms: int = int32()
    error_code: int = int16(since=3)
    results: Sequence[DescribeLogDirsResult] = array(DescribeLogDirsResult)
