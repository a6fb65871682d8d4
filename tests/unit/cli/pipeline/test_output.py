"""How a running pipeline looks in a pipe, as JSON, and on a terminal."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import pytest

from penstock.cli.pipeline.output import PipelineOutput
from penstock.spark.pipeline.running.progress import BatchProgress

PROGRESS = BatchProgress(
    query="totals",
    batch=3,
    time="2026-11-16T02:48:50.039Z",
    rows=1200,
    rows_per_s=4310.2,
    rows_out=None,
    batch_ms=278,
    lag=5,
    state_rows=None,
    lost=7,
)


class Terminal(io.StringIO):
    """A standard output that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_in_a_pipe_a_batch_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    output = PipelineOutput("x", as_json=False)
    with output.shown(is_stream=True):
        output.started(2, is_sent=False)
        output.report(PROGRESS)
        output.show("look", ["a", "b"], [[1, b"x"], [None, [1, 2]]])
        output.show("look", ["a"], [])
        assert not output.is_stopping()
    told = capsys.readouterr()
    assert told.err == "x: running, 2 sinks.\n"
    lines = told.out.splitlines()
    assert lines[0] == "totals batch 3: 1200 rows in 278 ms, 4310 rows/s, lag 5, lost 7"
    assert lines[1] == "look:"
    assert lines[2].split() == ["a", "b"]
    assert lines[-1] == "(no rows)"


def test_json_is_a_line_a_batch_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    output = PipelineOutput("x", as_json=True)
    with output.shown(is_stream=False):
        output.started(1, is_sent=False)
        output.report(PROGRESS)
        output.show("look", ["a"], [[b"\xff"]])
    told = capsys.readouterr()
    assert told.err == ""
    progress, rows = (json.loads(line) for line in told.out.splitlines())
    assert progress["batch_ms"] == 278
    assert rows == {"query": "look", "rows": [{"a": "\ufffd"}]}


def test_a_terminal_has_one_table_that_is_kept_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    output = PipelineOutput("totals of orders", as_json=False)
    with output.shown(is_stream=True):
        output.report(PROGRESS)
        output.report(PROGRESS)
    shown = terminal.getvalue()
    assert "waiting for the first batch" in shown
    assert "2,400" in shown, "rows since the start"
    assert "0.3 s" in shown
    assert "state" not in shown, "nobody has any"


def test_nothing_is_cut_off_on_an_ordinary_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    output = PipelineOutput("totals of orders", as_json=False)
    with output.shown(is_stream=True):
        output.report(
            replace(PROGRESS, rows=1_000_000, rows_per_s=214_310, batch_ms=120_900, state_rows=1000)
        )
    shown = terminal.getvalue()
    assert "…" not in shown
    assert all(part in shown for part in ("1,000,000", "214,310", "120.9 s", "1,000", "lost"))
