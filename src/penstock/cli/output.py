"""What commands show: tables, JSON, progress, one-sentence errors.

Results go to the standard output, everything else to the standard error. Colour, frames and
progress bars are for terminals; in a pipe there are only plain columns or JSON. rich is imported
when a table or a bar is drawn: most commands end before, and it takes a while to load.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NoReturn

import typer

from penstock.cli.quantities import size_text

FAILED: Final = 1
INTERRUPTED: Final = 130  # as a shell reports a program that SIGINT ended

# In a pipe nothing is cut or wrapped: the reader is a program.
_PIPE_COLUMNS: Final = 10_000

Row = Mapping[str, object]


def say(text: str = "", *, sign: str = "", colour: str = "cyan") -> None:
    """A line of the result, perhaps with a sign before it, which a terminal shows in colour."""
    if sign and sys.stdout.isatty():
        sign = typer.style(sign, fg=colour, bold=True)
    # By `print`, which finds the way past a progress bar.
    print(f"{sign} {text}" if sign else text)


def note(text: str) -> None:
    """A remark, beside the result."""
    typer.echo(text, err=True)


def fail(message: str, code: int = FAILED) -> NoReturn:
    """End the program with one sentence on the standard error."""
    typer.echo(f"{typer.style('error:', fg='red', bold=True)} {message}", err=True)
    sys.exit(code)


def show_json(value: object) -> None:
    """One line of JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False))


def show_rows(rows: Sequence[Row], *, as_json: bool, empty: str) -> None:
    """Rows as a table, or as a JSON list."""
    if as_json:
        show_json(rows)
    elif rows:
        show_table(rows)
    else:
        note(empty)


def show_table(rows: Sequence[Row], columns: Sequence[str] = ()) -> None:
    """A table of these columns, or of all that rows have; numbers stand to the right, a column
    named `bytes` is shown as sizes. One that is wider than the terminal is shown a row at a time,
    so that nothing is cut off."""
    from rich.console import Console

    columns = columns or tuple(rows[0])
    on_terminal = sys.stdout.isatty()
    width = Console().width if on_terminal else _PIPE_COLUMNS
    lines = _table_lines(rows, columns, on_terminal=on_terminal)
    if on_terminal and max(map(cell_length, lines)) > width:
        lines = _record_lines(rows, columns)
    for line in lines:
        typer.echo(line)


def _table_lines(rows: Sequence[Row], columns: Sequence[str], *, on_terminal: bool) -> list[str]:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD if on_terminal else None,
        pad_edge=on_terminal,
        padding=(0, 1) if on_terminal else (0, 2, 0, 0),
        header_style="bold cyan",
    )
    for column in columns:
        numeric = any(isinstance(row[column], int | float) for row in rows)
        table.add_column(column.replace("_", " "), justify="right" if numeric else "left")
    for row in rows:
        table.add_row(*(Text(_cell(column, row[column])) for column in columns))
    console = Console(width=_PIPE_COLUMNS)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    return lines if on_terminal else [line.rstrip() for line in lines]


def _record_lines(rows: Sequence[Row], columns: Sequence[str]) -> list[str]:
    names = {column: column.replace("_", " ") for column in columns}
    width = max(map(len, names.values()))
    lines = [""]
    for row in rows:
        for column, name in names.items():
            label = typer.style(name.rjust(width + 1), fg="cyan", bold=True)
            lines.append(f"{label}  {_cell(column, row[column])}")
        lines.append("")
    return lines


def cell_length(line: str) -> int:
    """How many columns of a terminal a line takes, colours aside."""
    from rich.text import Text

    return Text.from_ansi(line.rstrip()).cell_len


@contextmanager
def progress(total: float | None, *, shown: bool = True) -> Iterator[Callable[[float, str], None]]:
    """A progress bar on the standard error, if that is a terminal. What it gives is called with
    how much is done and what to say about it."""
    if not (shown and sys.stderr.isatty()):
        yield _ignore
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    # Lines of the result go above the bar where both are on one terminal.
    console, together = Console(stderr=True), sys.stdout.isatty()
    bar = Progress(*columns, console=console, transient=True, redirect_stdout=together)
    task = bar.add_task("", total=total)
    with bar:
        yield lambda done, text: bar.update(task, completed=done, description=text)


def _ignore(_done: float, _text: str) -> None:
    pass


def _cell(column: str, value: object) -> str:
    match value:
        case None:
            return "-"
        case int() if column == "bytes":
            return size_text(value)
        case int():
            # Digits in groups are for eyes; a program downstream wants the number.
            return f"{value:,}" if sys.stdout.isatty() else str(value)
        case list():
            return ", ".join(map(str, value)) or "-"
        case _:
            return str(value)
