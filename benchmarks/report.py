"""How a benchmark's figures look: rows of question, subject, value and unit; a table, JSON.

Not a runner, and no judge: whoever makes a row says what its budget is. The invariant: a row
stands on its own, so that rows of several benchmarks can be put together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

# A file has no width: wide enough that no row is folded.
_FILE_WIDTH: Final = 180


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    question: str
    subject: str
    value: float
    unit: str
    note: str = ""
    budget: str = ""
    """What the design asks, as text; empty where it asks nothing."""
    met: bool | None = None
    """Whether the value keeps to the budget; None where there is none."""


def of_rounds(question: str, subject: str, values: Sequence[float], unit: str) -> Row:
    """The median, and how far the rounds were apart."""
    if len(values) == 1:
        return Row(question, subject, values[0], unit)
    note = f"{_number(min(values))} to {_number(max(values))} in {len(values)} rounds"
    return Row(question, subject, median(values), unit, note)


def show(rows: Iterable[Row]) -> None:
    """Print the rows as a table, each question's name once."""
    table = Table()
    for heading in ("question", "subject"):
        table.add_column(heading)
    table.add_column("value", justify="right")
    for heading in ("unit", "budget", "note"):
        table.add_column(heading)
    question = None
    for row in rows:
        if question not in (None, row.question):
            table.add_section()
        shown = "" if row.question == question else row.question
        value, budget = _number(row.value), _verdict(row)
        table.add_row(shown, row.subject, value, row.unit, budget, row.note)
        question = row.question
    console = Console()
    if not console.is_terminal:
        console.width = _FILE_WIDTH
    console.print(table)


def as_json(rows: Iterable[Row], run: Mapping[str, object]) -> str:
    """What is known of the run, and its rows as objects with a field for each of theirs."""
    kept = {"run": dict(run), "rows": [asdict(row) for row in rows]}
    return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"


def _number(value: float) -> str:
    """Three significant digits, thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _verdict(row: Row) -> str:
    if row.met is None:
        return row.budget
    return f"[green]{row.budget} met[/]" if row.met else f"[red]{row.budget} missed[/]"
