"""How a running pipeline looks: a live table on a terminal, a line a batch in a pipe, or JSON.

The invariant: what is shown is a batch that has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from penstock.cli.output import note, say, show_json, show_table
from penstock.cli.pipeline.common import Stopping

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.live import Live
    from rich.table import Table

    from penstock.spark.pipeline.running.progress import BatchProgress

_COLUMNS: Final = (
    "query",
    "batch",
    "rows",
    "rows/s",
    "out",
    "time",
    "total",
    "lag",
    "state",
    "lost",
)
# Left out where no query has anything to say there: a terminal has 80 columns.
_AT_NEED: Final = {"out", "state", "lost"}


class PipelineOutput:
    """What a command shows of its queries. Use it in `shown()`."""

    def __init__(self, title: str, *, as_json: bool) -> None:
        self._title = title
        self._as_json = as_json
        self._stopping = Stopping()
        self._live: Live | None = None
        self._latest: dict[str, BatchProgress] = {}
        self._totals: dict[str, int] = {}

    @contextmanager
    def shown(self, *, is_stream: bool) -> Iterator[None]:
        """While it runs. A stream is told to end by signals; a batch is broken off by them."""
        with ExitStack() as stack:
            if is_stream:
                stack.enter_context(self._stopping.on_signals())
            if sys.stdout.isatty() and not self._as_json and is_stream:
                from rich.live import Live

                # Lines of console sinks and warnings go above the table.
                self._live = stack.enter_context(Live(self._table(), refresh_per_second=4))
            yield

    def is_stopping(self) -> bool:
        return self._stopping.is_asked

    def started(self, sinks: int, *, is_sent: bool) -> None:
        if is_sent:
            note("The executors had no Penstock of this version: it was sent to them.")
        if not self._as_json:
            note(f"{self._title}: running, {sinks} {'sink' if sinks == 1 else 'sinks'}.")

    def report(self, progress: BatchProgress) -> None:
        """A batch has ended."""
        total = self._totals.get(progress.query, 0) + progress.rows
        self._totals[progress.query] = total
        self._latest[progress.query] = progress
        if self._as_json:
            show_json(progress.to_json())
        elif self._live is not None:
            self._live.update(self._table())
        else:
            say(_line(progress))

    def show(self, sink: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Rows of a console sink."""
        named = [dict(zip(columns, (_plain(value) for value in row), strict=True)) for row in rows]
        if self._as_json:
            show_json({"query": sink, "rows": named})
            return
        say(f"{sink}:")
        if named:
            show_table(named, columns)
        else:
            say("(no rows)")

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", title=self._title)
        rows = [
            (name, *_cells(progress, self._totals[name])) for name, progress in self._latest.items()
        ]
        shown = [
            place
            for place, column in enumerate(_COLUMNS)
            if column not in _AT_NEED or any(row[place] not in ("-", "0") for row in rows)
        ]
        for place in shown:
            justify: JustifyMethod = "right" if place else "left"
            table.add_column(_COLUMNS[place], justify=justify, no_wrap=True)
        for row in rows:
            table.add_row(*(row[place] for place in shown))
        if not rows:
            table.add_row("waiting for the first batch", *[""] * (len(shown) - 1))
        return table


def _cells(progress: BatchProgress, total: int) -> list[str]:
    return [
        f"{progress.batch:,}",
        f"{progress.rows:,}",
        f"{progress.rows_per_s:,.0f}",
        _number(progress.rows_out),
        f"{progress.batch_ms / 1000:,.1f} s",
        f"{total:,}",
        _number(progress.lag),
        _number(progress.state_rows),
        f"[red]{progress.lost:,}[/]" if progress.lost else "0",
    ]


def _line(progress: BatchProgress) -> str:
    text = (
        f"{progress.query} batch {progress.batch}: {progress.rows} rows in {progress.batch_ms} ms, "
        f"{progress.rows_per_s:.0f} rows/s"
    )
    for value, name in ((progress.lag, "lag"), (progress.state_rows, "state rows")):
        text += f", {name} {value}" if value is not None else ""
    return text + (f", lost {progress.lost}" if progress.lost else "")


def _number(value: int | None) -> str:
    return "-" if value is None else f"{value:,}"


def _plain(value: object) -> object:
    """A cell as JSON and people have it."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case bytes() | bytearray():
            return bytes(value).decode(errors="replace")
    return str(value)
