"""Spark's answers as plain rows, for whoever makes tables and findings of them. No Spark here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.spark.inspection.evidence.slow import Timed

Record = dict[str, Any]
"""A row of an answer: its columns are those of the DataFrame it was collected from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What Spark found, as rows."""

    partitions: list[Record]
    gaps: list[Record]
    """Where offsets are missing, in the topics of which it was asked."""
    codecs: list[Record]
    throughput: list[Record]
    bucket_widths_ms: dict[str, int]
    sizes: list[Record]
    delays: list[Record]
    producers: list[Record]
    slow: dict[str, list[tuple[Timed, int]]]
    slow_batches: list[Record]
    faults: list[Record]
    top_keys: list[Record]
    keys_by_count: list[Record]
    dead_letters: list[Record]


def histogram(rows: Sequence[Record], topic: str) -> list[tuple[int, int]]:
    """The classes of one topic, by value."""
    return sorted((row["low"], row["messages"]) for row in rows if row["topic"] == topic)
