"""The report: one self-contained HTML page, made of its sections.

No script, nothing loaded from anywhere, and a policy in its head that says so to the browser.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.spark.inspection.evidence.tables import Tables
from penstock.spark.inspection.finding import Finding
from penstock.spark.inspection.options import InspectOptions
from penstock.spark.inspection.report.details import details_section
from penstock.spark.inspection.report.html import Html, element, style_sheet
from penstock.spark.inspection.report.sections import findings_section, pills, topic_section
from penstock.spark.inspection.report.style import STYLE
from penstock.spark.inspection.wording import counted, duration, moment

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(
    options: InspectOptions,
    findings: Sequence[Finding],
    tables: Tables,
    *,
    at_ms: int,
    took_ms: int,
) -> str:
    """The page as text."""
    names = ", ".join(options.topics)
    head = element(
        "head",
        None,
        element("meta", {"charset": "utf-8"}),
        element("meta", {"http-equiv": "Content-Security-Policy", "content": _POLICY}),
        element("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}),
        element("meta", {"name": "color-scheme", "content": "light dark"}),
        element("title", None, f"Inspection of {names}"),
        style_sheet(STYLE),
    )
    main = element(
        "main",
        None,
        _header(options, findings, tables, at_ms, took_ms),
        findings_section(findings, sum(row.messages for row in tables.topics)),
        *(topic_section(row, tables) for row in tables.topics),
        details_section(tables),
        _footer(options, tables),
    )
    page = element("html", {"lang": "en"}, head, element("body", None, main))
    return f"<!doctype html>\n{page}\n"


def _header(
    options: InspectOptions,
    findings: Sequence[Finding],
    tables: Tables,
    at_ms: int,
    took_ms: int,
) -> Html:
    messages = sum(row.messages for row in tables.topics)
    firsts = [row.first_ms for row in tables.topics if row.first_ms is not None]
    lasts = [row.last_ms for row in tables.topics if row.last_ms is not None]
    ranges = f"{moment(min(firsts))} to {moment(max(lasts))} UTC" if firsts and lasts else "no time"
    place = f"data folder {options.path}" if options.path else f"broker {options.bootstrap}"
    return element(
        "header",
        None,
        element("p", {"class": "overline"}, "Penstock log inspection"),
        element("h1", None, ", ".join(options.topics)),
        element(
            "p",
            {"class": "meta"},
            element("span", None, counted(messages, "message")),
            element("span", None, ranges),
            element("span", None, place),
            element("span", None, f"inspected {moment(at_ms)} UTC in {duration(took_ms)}"),
        ),
        pills(findings),
    )


def _footer(options: InspectOptions, tables: Tables) -> Html:
    lines = [
        "Times are UTC. Percentiles are up to 3 % below the exact ones. Every number of this page "
        "is in the Parquet folders beside it."
    ]
    if any(row.delay_basis == "lower bound" for row in tables.topics):
        lines.append(
            "Where the topic keeps the producer's time, the delay is a lower bound: a message was "
            "appended no earlier than the latest create time before it in its partition."
        )
    if options.path is not None:
        lines.append(
            "Read from a data folder without a broker: settings, lag of groups and removed offsets "
            "are not known and left out."
        )
    return element("footer", None, *(element("p", None, line) for line in lines))
