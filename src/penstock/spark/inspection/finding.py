"""A finding: what is wrong, what it means, what to do, and the offsets that show it.

Not how it was found. The invariant: findings sort by how bad they are, and every one that speaks
of messages shows some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

EXAMPLES_MAX: Final = 10


class Severity(StrEnum):
    """How bad a finding is."""

    CRITICAL = "critical"
    """The log does not hold what it promises to hold."""
    WARNING = "warning"
    """Something that somebody should look at soon."""
    NOTE = "note"
    """Worth knowing; nothing is wrong."""

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


class Kind(StrEnum):
    """What a finding is about."""

    HOLE = "hole"
    DUPLICATES = "duplicates"
    ORDER = "order"
    HOT_KEY = "hot key"
    SLOW_PRODUCER = "slow producer"
    WRONG_CLOCK = "wrong clock"
    IMBALANCE = "imbalance"
    LAG = "lag"
    DEAD_LETTERS = "dead letters"
    CONTROL_RECORDS = "control records"
    INTERLEAVED_PRODUCERS = "interleaved producers"
    SCATTERED_KEYS = "scattered keys"
    SMALL_BATCHES = "small batches"
    COMPRESSION = "compression"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A place in the log, and what is to be seen there."""

    partition: int
    offset: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing worth telling somebody."""

    severity: Severity
    kind: Kind
    topic: str
    problem: str
    """What is wrong: a sentence."""
    meaning: str
    """What it means for those who read the topic: a sentence."""
    advice: str
    """What to do: a sentence."""
    count: int
    """How many messages, or partitions or batches, it is about."""
    examples: tuple[Example, ...] = ()


def ranked(findings: list[Finding]) -> tuple[Finding, ...]:
    """The worst first; among equals, the largest first."""
    return tuple(
        sorted(findings, key=lambda finding: (finding.severity.rank, -finding.count, finding.topic))
    )
