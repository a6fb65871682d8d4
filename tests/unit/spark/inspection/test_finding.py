"""The order in which findings are told."""

from __future__ import annotations

from penstock.spark.inspection import Finding, Kind, Severity
from penstock.spark.inspection.finding import ranked


def finding(severity: Severity, count: int) -> Finding:
    return Finding(
        severity=severity,
        kind=Kind.HOLE,
        topic="orders",
        problem="",
        meaning="",
        advice="",
        count=count,
    )


def test_the_worst_comes_first_then_the_largest() -> None:
    """R-SPK-3: findings are ranked."""
    note, warning = finding(Severity.NOTE, 900), finding(Severity.WARNING, 5)
    small, large = finding(Severity.CRITICAL, 1), finding(Severity.CRITICAL, 10)
    assert ranked([note, small, warning, large]) == (large, small, warning, note)
