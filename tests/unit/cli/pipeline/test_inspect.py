"""What `penstock pipeline inspect` writes to a pipe, and what it refuses before Spark starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import make_app
from penstock.cli.pipeline.inspect import show
from penstock.spark.inspection import Inspection, InspectOptions
from penstock.spark.inspection.evidence.tables import LagRow, Tables
from tests.kit.spark.healthy_topic import topic_row
from tests.unit.spark.inspection.report.test_page import FINDING, full_tables

INSPECTION = Inspection(
    options=InspectOptions(topics=("orders",), path="data"),
    at_ms=0,
    took_ms=0,
    findings=(FINDING,),
    tables=full_tables(),
)


def test_findings_come_first_with_their_offsets(capsys: pytest.CaptureFixture[str]) -> None:
    """R-SPK-3: as a table."""
    show(INSPECTION)
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0] == "critical orders, hole"
    assert "  → Restore them." in lines
    assert any(line.startswith("    orders[1] @ 113: from here on") for line in lines)
    header = next(index for index, line in enumerate(lines) if line.startswith("topic"))
    assert lines[header + 1].split()[:3] == ["orders", "2", "1000"]
    assert "No broker was asked" in shown.err


def test_text_of_others_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    evil = "Timeout\x1b[2J\x1b]0;title\x07"
    lag = LagRow(
        topic="orders",
        group=evil,
        partition=0,
        committed_offset=0,
        end_offset=9,
        lag=9,
        lost=0,
    )
    place = replace(FINDING.examples[0], text=evil)
    finding = replace(FINDING, problem=f"For: {evil}", examples=(place,))
    tables = replace(INSPECTION.tables, lag=(lag,))
    show(replace(INSPECTION, findings=(finding,), tables=tables))
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert shown.count(r"Timeout\x1b[2J") == 3


def test_a_report_folder_that_cannot_be_written_to_is_told_before_spark_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("penstock.spark.pipeline.running.run.session", fail)
    (tmp_path / "file").write_text("")
    words = ["pipeline", "inspect", "orders", "--report", str(tmp_path / "file" / "out")]
    result = CliRunner().invoke(make_app(), words)
    assert result.exit_code == 1
    assert "cannot be written to" in str(result.exception)


def test_a_clean_empty_topic(capsys: pytest.CaptureFixture[str]) -> None:
    row = topic_row(messages=0, first_ms=None, last_ms=None)
    show(replace(INSPECTION, findings=(), tables=Tables(topics=(row,))))
    assert "Nothing wrong was found." in capsys.readouterr().out


def test_a_time_that_is_none_is_refused() -> None:
    result = CliRunner().invoke(
        make_app(), ["pipeline", "inspect", "orders", "--since", "yesterday"]
    )
    assert result.exit_code == 1
    assert "'yesterday' is not a time" in str(result.exception)


def test_a_severity_that_is_none_is_refused() -> None:
    result = CliRunner().invoke(make_app(), ["pipeline", "inspect", "orders", "--fail-on", "note"])
    assert result.exit_code == 2
