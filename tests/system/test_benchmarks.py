"""The benchmarks run: a short run of one question gives rows. How fast is not a test's business."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import rounds, servers, throughput
from benchmarks.rounds import until_steady

ROOT = Path(__file__).parents[2]


def test_a_quick_run_prints_a_table_and_keeps_its_rows(tmp_path: Path) -> None:
    rows, printed = quick_run(tmp_path, "produce_round_trip", "produce_pipelined")
    subjects = {row["subject"] for row in rows}
    assert {"floor", "Penstock, os", "Penstock, fsync", "Penstock, os / floor"} <= subjects
    assert "Penstock, os / floor" in printed


@pytest.mark.soak
def test_clusters_are_measured_and_their_heartbeats_counted(tmp_path: Path) -> None:
    """R-REP-1, R-REP-2: brokers that share twenty idle partitions say one thing to each other in a
    tick, and no more; and when a leader is killed, writes go on."""
    rows, _ = quick_run(tmp_path, "failover", "many_partitions")
    assert [row for row in rows if "leader killed" in row["question"]]
    counted = {row["subject"]: row["value"] for row in rows if "in a tick" in row["question"]}
    # A tick of a busy machine may be late, and the next one not; a second has five.
    assert 0.4 <= counted["heartbeats"] <= 1.5
    assert counted["anything else"] <= 1


@pytest.mark.soak
def test_the_cost_of_filters_is_measured(tmp_path: Path) -> None:
    """R-DEL-12: for each message, beside none."""
    rows, _ = quick_run(tmp_path, "filters")
    costs = {row["subject"]: row["value"] for row in rows if row["question"] == "filters"}
    assert costs["no filter"] < min(cost for name, cost in costs.items() if name != "no filter")


@pytest.mark.soak
def test_shared_delivery_and_push_are_measured(tmp_path: Path) -> None:
    """R-DEL-3, R-DEL-6: with one consumer and with two, every message by one of them."""
    rows, _ = quick_run(tmp_path, "delivery")
    questions = {row["question"] for row in rows if row["subject"] == "Penstock"}
    assert {"shared, 100 B, 1 consumer", "shared, 1 kB, 2 consumers"} <= questions
    pushed = {row["subject"] for row in rows if row["question"].startswith("publish to handler")}
    assert "Penstock, subscribe(push=True)" in pushed


def test_a_peer_is_warm_when_its_load_gets_no_cheaper() -> None:
    """A step of a compiler that comes late is waited for; noise of a percent is no step."""
    costs_us = [80.0, 40.0, 40.1, 39.9, 20.0, 19.9, 20.1, 19.8, 5.0]
    assert until_steady(costs_us) == costs_us[:-1]
    assert len(until_steady(1 / (number + 1) for number in range(100))) == 20, "it has an end"


def test_what_a_round_wrote_is_gone_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many rounds as it takes to be warm, of 300 MB each, would fill a disk."""
    kept_bytes: dict[str, int] = {}

    def in_turns(
        measures: Mapping[str, Callable[[], Any]], rounds: int, *, quick: bool
    ) -> dict[str, list[Any]]:
        found = {}
        for name, measure in measures.items():
            found[name] = [measure()]
            files = [each for each in tmp_path.rglob("*") if each.is_file()]
            kept_bytes[name] = sum(each.stat().st_size for each in files)
        return found

    monkeypatch.setattr(servers, "SCRATCH", tmp_path)
    monkeypatch.setattr(rounds, "in_turns", in_turns)
    throughput.run(quick=True)
    assert {"floor", "Penstock, os", "Penstock, fsync"} < kept_bytes.keys()
    assert max(kept_bytes.values()) < 1_000_000, kept_bytes


def quick_run(results: Path, *questions: str) -> tuple[list[dict[str, Any]], str]:
    """The rows that were kept, and what was printed."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "--quick", "--results", str(results)),
            *(word for question in questions for word in ("--only", question)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [kept] = results.glob("*.json")
    rows = json.loads(kept.read_text())["rows"]
    for row in rows:
        assert math.isfinite(row["value"]), row
        assert row["unit"], row
    return rows, done.stdout
