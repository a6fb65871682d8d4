"""Rows and evidence of a healthy topic, for tests that change one thing of it."""

from __future__ import annotations

from typing import Any

from penstock.spark.inspection.evidence.evidence import TopicEvidence
from penstock.spark.inspection.evidence.tables import KeyRow, PartitionRow, TopicRow


def topic_row(**changes: Any) -> TopicRow:
    fields: dict[str, Any] = {
        "topic": "orders",
        "partitions": 2,
        "messages": 1_000,
        "batches": 100,
        "unkeyed_messages": 0,
        "message_bytes": 100_000,
        "stored_bytes": 80_000,
        "first_ms": 1_790_000_000_000,
        "last_ms": 1_790_000_060_000,
        "keys": 100,
        "gini": 0.2,
        "producers": 2,
        "size_p50": 100,
        "size_p99": 140,
        "delay_basis": "lower bound",
        "delay_p50_ms": 5,
        "delay_p99_ms": 40,
        "is_compacted": False,
    }
    return TopicRow(**(fields | changes))


def partition_row(partition: int, messages: int) -> PartitionRow:
    return PartitionRow(
        topic="orders",
        partition=partition,
        messages=messages,
        batches=50,
        stored_bytes=40_000,
        first_offset=0 if messages else None,
        last_offset=messages - 1 if messages else None,
        log_start_offset=0,
        log_end_offset=messages,
        size_bytes=40_000,
        segments=1,
        missing_offsets=0,
        missing_sequences=0,
        repeated_sequences=0,
    )


def key_row(key: bytes, messages: int, of: int = 1_000) -> KeyRow:
    return KeyRow(
        topic="orders",
        rank=1,
        key=key,
        messages=messages,
        share=messages / of,
        message_bytes=100 * messages,
        first_partition=1,
        first_offset=17,
    )


def evidence(row: TopicRow | None = None, **changes: Any) -> TopicEvidence:
    fields: dict[str, Any] = {
        "row": row or topic_row(),
        "partitions": (partition_row(0, 510), partition_row(1, 490)),
        "unkeyed_batches": 0,
        "keys": (key_row(b"alice", 20),),
    }
    return TopicEvidence(**(fields | changes))
