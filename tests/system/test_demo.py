"""`penstock demo`: it proves what it says, on a terminal and in a pipe, and leaves nothing."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.executed

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
MESSAGES = 30_000
SECONDS_MAX = 60
SPARK_SECONDS_MAX = 240
ESCAPE = b"\x1b"


def environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name[:9] != "PENSTOCK_"}
    return {**kept, "TMPDIR": str(folder), "TERM": "xterm-256color"}


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    """R-STO-6 and R-PRO-2: acknowledged data survives SIGKILL, and a retry makes no duplicate."""
    run = subprocess.run(
        [PENSTOCK, "demo", "--messages", str(MESSAGES), "--no-spark", "--json"],
        capture_output=True,
        env=environment(tmp_path),
        timeout=SECONDS_MAX,
        check=True,
    )
    story = json.loads(run.stdout)
    assert story["holds"] is True
    assert story["acknowledged"] == MESSAGES
    assert MESSAGES // 2 <= story["crash"]["acknowledged"] < MESSAGES, "killed in the middle"
    assert story["crash"]["under_way"] > 0
    expected = {"lost": 0, "misplaced": 0, "duplicated": 0, "out_of_order": 0, "altered": 0}
    for reading in ("live", "again"):
        assert story[reading] == {"found": MESSAGES, **expected}
    assert os.listdir(tmp_path) == [], "the broker's folder is gone"
    assert run.stderr == b""


@pytest.mark.usefixtures("fast_java")
def test_spark_makes_totals_and_a_report(tmp_path: Path) -> None:
    """R-SPK-3 and R-SPK-4: a pipeline counts every order once; the report is where it says."""
    temporary, folder = tmp_path / "temporary", tmp_path / "demo"
    temporary.mkdir()
    command = [PENSTOCK, "demo", "--messages", "5000", "--json", "--folder", str(folder)]
    run = subprocess.run(
        command,
        capture_output=True,
        env=environment(temporary),
        timeout=SPARK_SECONDS_MAX,
        check=True,
    )
    story = json.loads(run.stdout)
    assert story["holds"] is True
    assert story["totals"]["orders"] == 5000
    assert Path(story["totals"]["report"]).read_text().startswith("<!doctype html>")
    assert (folder / "totals.toml").exists(), "to be looked at, and run again"


def test_it_reads_well_in_a_pipe(tmp_path: Path) -> None:
    run = subprocess.run(
        [PENSTOCK, "demo", "--messages", "5000", "--no-spark"],
        capture_output=True,
        env=environment(tmp_path),
        timeout=SECONDS_MAX,
        check=True,
    )
    text = run.stdout.decode()
    assert "Every acknowledged message is there, once and in order." in text
    assert "killed by SIGKILL" in text
    assert ESCAPE not in run.stdout
    assert b"\r" not in run.stdout
    assert run.stderr == b""


def test_it_shows_progress_on_a_terminal(tmp_path: Path) -> None:
    reading, writing = pty.openpty()
    command = [PENSTOCK, "demo", "--messages", str(MESSAGES), "--no-spark"]
    with subprocess.Popen(
        command, stdout=writing, stderr=writing, env=environment(tmp_path)
    ) as process:
        os.close(writing)
        output = b""
        try:
            while chunk := os.read(reading, 65536):
                output += chunk
        except OSError:  # Linux reports the end of a terminal as an error
            pass
        assert process.wait(SECONDS_MAX) == 0
    os.close(reading)
    assert ESCAPE in output
    assert " acknowledged" in output.decode()
