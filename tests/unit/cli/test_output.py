"""How tables look on terminals of any width, and in a pipe."""

from __future__ import annotations

import io
import sys

import pytest
from rich.text import Text

from penstock.cli.output import show_table

ROWS = [
    {"topic": "orders", "messages": 100_000, "bytes": 12_163_481, "from": "2026-11-16 02:00:00"},
    {"topic": "bills", "messages": 3, "bytes": 17, "from": None},
]
COLUMNS = ("topic", "messages", "bytes", "from")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on(terminal_columns: int, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", str(terminal_columns))
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    show_table(ROWS, COLUMNS)
    return Text.from_ansi(terminal.getvalue()).plain


def test_a_terminal_that_is_wide_enough_has_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = shown_on(80, monkeypatch).splitlines()
    assert ["topic", "messages", "bytes", "from"] in [line.split() for line in lines]
    assert max(map(len, lines)) <= 80


def test_a_narrow_one_has_a_row_at_a_time_and_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_on(40, monkeypatch)
    assert "…" not in shown
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line]
    assert ["messages", "100,000"] in lines
    assert ["from", "2026-11-16 02:00:00"] in lines
    assert ["topic", "bills"] in lines


def test_a_pipe_has_plain_columns(capsys: pytest.CaptureFixture[str]) -> None:
    show_table(ROWS, COLUMNS)
    first, *_ = capsys.readouterr().out.splitlines()
    assert first.split() == ["topic", "messages", "bytes", "from"]
