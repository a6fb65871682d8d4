"""The benchmarks run: a short run of one question gives rows. How fast is not a test's business."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_quick_run_prints_a_table_and_keeps_its_rows(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "--quick", "--results", str(tmp_path)),
            *("--only", "produce_round_trip", "--only", "produce_pipelined"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [kept] = tmp_path.glob("*.json")
    rows = json.loads(kept.read_text())["rows"]
    subjects = {row["subject"] for row in rows}
    assert {"floor", "Penstock, os", "Penstock, fsync", "Penstock, os / floor"} <= subjects
    for row in rows:
        assert math.isfinite(row["value"]), row
        assert row["unit"], row
    assert "Penstock, os / floor" in done.stdout
