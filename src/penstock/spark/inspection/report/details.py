"""The tables of the report, folded away until somebody opens them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Final

from penstock.spark.inspection.evidence.tables import Tables
from penstock.spark.inspection.report.html import Html, element
from penstock.spark.inspection.wording import duration, foreign, moment, share, size

_SHOWN: Final = (
    ("topics", "Topics"),
    ("partitions", "Partitions"),
    ("producers", "Producers"),
    ("keys", "Top keys"),
    ("codecs", "Compression"),
    ("lag", "Lag of groups"),
    ("dead_letters", "Dead letters"),
    ("removals", "Removed offsets"),
)


def details_section(tables: Tables) -> Html:
    """All tables that have rows."""
    shown = [_table(title, rows) for name, title in _SHOWN if (rows := getattr(tables, name))]
    return element("section", {"aria-label": "Tables"}, element("h2", None, "Tables"), *shown)


def _table(title: str, rows: Sequence[Any]) -> Html:
    names = [field.name for field in fields(rows[0])]
    head = [
        element("th", {"scope": "col", "class": _look(name, rows)}, _heading(name))
        for name in names
    ]
    body = [
        element(
            "tr",
            None,
            *(
                element("td", {"class": _look(name, rows)}, _cell(name, getattr(row, name)))
                for name in names
            ),
        )
        for row in rows
    ]
    table = element(
        "table",
        None,
        element("thead", None, element("tr", None, *head)),
        element("tbody", None, *body),
    )
    return element(
        "details",
        None,
        element("summary", None, f"{title} ", element("span", None, f"{len(rows)}")),
        element("div", {"class": "scroll", "tabindex": 0}, table),
    )


def _heading(name: str) -> str:
    return name.removesuffix("_ms").removesuffix("_bytes").replace("_", " ")


def _look(name: str, rows: Sequence[Any]) -> str | None:
    if name in ("cause", "detail"):
        return "text"
    values = [getattr(row, name) for row in rows]
    is_number = any(isinstance(value, int | float) for value in values)
    return "number" if is_number and not _is_moment(name) else None


def _is_moment(name: str) -> bool:
    return name in ("first_ms", "last_ms", "at_ms")


_WORDS: Final[tuple[tuple[Callable[[str], bool], Callable[[Any], str]], ...]] = (
    (_is_moment, moment),
    (lambda name: name.endswith("_ms"), duration),
    (lambda name: name.endswith("bytes") or name.startswith("size_p"), size),
    (lambda name: name == "share", share),
    (lambda name: name in ("gini", "ratio"), lambda value: f"{value:.2f}"),
    (lambda name: name == "key", foreign),
    (lambda name: name in ("producer_id", "partition"), str),
)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    for is_meant, say in _WORDS:
        if is_meant(name):
            return say(value)
    return f"{value:,}" if isinstance(value, int) else str(value)
