"""`penstock pipeline inspect`: what is wrong with topics, by a Spark job over their logs.

Not `penstock inspect`, which checks the bytes of files. Findings and small tables on the terminal,
the report and Parquet where `--report` says, a summary with `--json`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from penstock.cli.output import FAILED, note, progress, say, show_json, show_table
from penstock.cli.pipeline.common import MASTER_DEFAULT, Debug, Master, one_sentence
from penstock.cli.quantities import moment_ms, moment_text
from penstock.cli.runtime import DEFAULT_BOOTSTRAP, Bootstrap, Json

if TYPE_CHECKING:
    from penstock.spark.inspection import Finding, Inspection, InspectOptions

# On a terminal; the report has more of them.
_EXAMPLES_SHOWN: Final = 3
_COLOURS: Final = {"critical": "red", "warning": "yellow", "note": "blue"}


Topics = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="What to inspect.")]
Report = Annotated[
    str | None,
    typer.Option(
        metavar="DIR", help="Write report.html and the tables as Parquet into this folder."
    ),
]
DataFolder = Annotated[
    str | None,
    typer.Option(metavar="DATA-FOLDER", help="Read this data folder instead of a broker."),
]
Since = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only messages from then on, as in 24h-ago.")
]
DeadLetters = Annotated[
    list[str] | None,
    typer.Option(metavar="TOPIC", help="A topic of dead letters, beside TOPIC.dead and the like."),
]
FailFrom = Annotated[
    Literal["warning", "critical"] | None,
    typer.Option(help="Exit code 1 for findings this bad or worse."),
]


def inspect(
    topics: Topics,
    *,
    report: Report = None,
    path: DataFolder = None,
    since: Since = None,
    dead_letters: DeadLetters = None,
    fail_on: FailFrom = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    master: Master = MASTER_DEFAULT,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Find what is wrong with topics: holes, duplicates, swapped order, skew, delay, lag.

    The log is read once, by Spark; nothing is changed. What counts as a finding, and how it is
    computed, is in docs/inspection.md.

    \b
    Examples:
      penstock pipeline inspect orders --report out
      penstock pipeline inspect orders payments --since 24h-ago --fail-on warning
      penstock pipeline inspect orders --path penstock-data --json
    """
    with one_sentence(is_debug=debug):
        from penstock.spark.inspection import InspectOptions, prepare_folder

        options = InspectOptions(
            topics=tuple(dict.fromkeys(topics)),
            bootstrap=None if path else bootstrap,
            path=path,
            dead_letters=tuple(dead_letters or ()),
            since_ms=moment_ms(since, time.time_ns() // 1_000_000) if since else None,
        )
        if report:
            prepare_folder(report)
        inspection = _run(options, master=master, is_debug=debug, is_shown=not as_json)
        written = inspection.write_report(report) if report else None
    if as_json:
        show_json({**inspection.summary(), "report": written})
    else:
        show(inspection)
        if written:
            say(f"The report is in {written}")
    worst = inspection.worst()
    if fail_on and worst and worst.value in ("critical", fail_on):
        raise typer.Exit(FAILED)


def _run(options: InspectOptions, *, master: str, is_debug: bool, is_shown: bool) -> Inspection:
    from penstock.spark.inspection import inspect as run_inspection
    from penstock.spark.pipeline.running.run import SparkPlace, running_spark

    with progress(1.0, shown=is_shown) as tell:
        tell(0.0, "starting Spark")
        place = SparkPlace(master=master, is_debug=is_debug)
        with running_spark(place, "penstock inspect", {}) as started:
            return run_inspection(
                started.spark, options, lambda done, total, text: tell(done / total, text)
            )


def show(inspection: Inspection) -> None:
    """Findings first, then the numbers of topics and groups."""
    for finding in inspection.findings:
        _show_finding(finding)
    if not inspection.findings:
        say("Nothing wrong was found.", sign="✓", colour="green")
        say()
    tables = inspection.tables
    show_table(
        [
            {
                "topic": row.topic,
                "partitions": row.partitions,
                "messages": row.messages,
                "bytes": row.stored_bytes,
                "from": moment_text(row.first_ms) if row.first_ms is not None else None,
                "to": moment_text(row.last_ms) if row.last_ms is not None else None,
                "keys": row.keys,
                "gini": f"{row.gini:.2f}",
                "size_p99": row.size_p99,
                "delay_p99_ms": row.delay_p99_ms,
            }
            for row in tables.topics
        ],
        (
            "topic",
            "partitions",
            "messages",
            "bytes",
            "from",
            "to",
            "keys",
            "gini",
            "size_p99",
            "delay_p99_ms",
        ),
    )
    _show_lag(inspection)
    if inspection.is_offline:
        note("No broker was asked: settings, lag and removed offsets are not known.")


def _show_finding(finding: Finding) -> None:
    # Causes of dead letters and names of groups are text of others: it must not steer a terminal.
    from penstock.spark.inspection.wording import printable

    severity = finding.severity.value
    say(f"{finding.topic}, {finding.kind.value}", sign=severity, colour=_COLOURS[severity])
    say(f"  {printable(finding.problem)}")
    say(f"  {finding.meaning}")
    say(finding.advice, sign="  →")
    for place in finding.examples[:_EXAMPLES_SHOWN]:
        text = printable(place.text)
        say(f"    {finding.topic}[{place.partition}] @ {place.offset}: {text}")
    left = len(finding.examples) - _EXAMPLES_SHOWN
    if left > 0:
        say(f"    … and {left} more")
    say()


def _show_lag(inspection: Inspection) -> None:
    from penstock.spark.inspection.wording import printable

    lags: dict[tuple[str, str], list[int]] = {}
    for row in inspection.tables.lag:
        lags.setdefault((row.topic, row.group), []).append(row.lag)
    if lags:
        say()
        show_table(
            [
                {
                    "group": printable(group),
                    "topic": topic,
                    "lag": sum(lag),
                    "partitions": len(lag),
                }
                for (topic, group), lag in sorted(lags.items())
            ]
        )
