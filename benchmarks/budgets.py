"""Rows that stand beside a budget: a value, or the ratio of two values of the same run, with what
the design asks of it and whether that is met.

Not where budgets are chosen: each question states its own. Invariant: a ratio is made only of
values measured in turns in one run.
"""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.report import Row


def at_most(question: str, subject: str, value: float, unit: str, limit: float) -> Row:
    return Row(question, subject, value, unit, budget=f"≤ {limit:,.10g} {unit}", met=value <= limit)


def at_least(question: str, subject: str, value: float, unit: str, limit: float) -> Row:
    return Row(question, subject, value, unit, budget=f"≥ {limit:,.10g} {unit}", met=value >= limit)


def ratios(
    question: str,
    values: Mapping[str, float],
    limits: Mapping[tuple[str, str], tuple[str, float] | None],
) -> list[Row]:
    """One row for each pair (subject, yardstick) of `limits` whose values are both there; the limit
    is ("≤", 1.3) or ("≥", 0.6), or None where the design sets none."""
    rows = []
    for (subject, yardstick), limit in limits.items():
        if subject not in values or yardstick not in values:
            continue
        name, ratio = f"{subject} / {yardstick}", values[subject] / values[yardstick]
        if limit is None:
            rows.append(Row(question, name, ratio, "x"))
        else:
            judge = at_most if limit[0] == "≤" else at_least
            rows.append(judge(question, name, ratio, "x", limit[1]))
    return rows
