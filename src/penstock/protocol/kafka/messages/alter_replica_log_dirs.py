"""AlterReplicaLogDirs (API 34): let copies be in another folder of their broker, which has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.protocol.kafka.schema import Kind, array, int16, int32, string


@dataclass(slots=True)
class AlterReplicaLogDirTopic:
    name: str = string()
    partitions: Sequence[int] = array(Kind.INT32)


@dataclass(slots=True)
class AlterReplicaLogDir:
    path: str = string()
    topics: Sequence[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic)


@dataclass(slots=True)
class AlterReplicaLogDirsRequest:
    dirs: Sequence[AlterReplicaLogDir] = array(AlterReplicaLogDir)


@dataclass(slots=True)
class AlterReplicaLogDirPartitionResult:
    partition_index: int = int32()
    error_code: int = int16()


@dataclass(slots=True)
class AlterReplicaLogDirTopicResult:
    topic_name: str = string()
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = array(
        AlterReplicaLogDirPartitionResult
    )


@dataclass(slots=True)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: int = int32()
    results: Sequence[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult)
