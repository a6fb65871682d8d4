"""What many seeds were worth together."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.simulation import many
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.clusters.run import Outcome
from tests.kit.simulation.many import Failed, Summary, run_or_fail


def outcome(seed: int, counts: Counter[str]) -> Outcome:
    return Outcome(
        seed=seed,
        simulated_ms=1_800_000,
        elections=3,
        acknowledged=1_000,
        read=10,
        counts=counts,
        available_ms=100 * seed,
        settled_ms=5,
        digest="",
    )


def test_a_summary_adds_up() -> None:
    summary = Summary()
    summary.add(outcome(1, Counter(crash=2)))
    summary.add(outcome(2, Counter(crash=1, pause=4)))
    summary.add(Failed(3, "two leaders"))
    text = summary.text()
    assert "3 seeds, failed: 3" in text
    assert "1.0 simulated hours, 6 elections, 2,000 records acknowledged, 20 read" in text
    assert "within 200 ms" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [["3", "crash"], ["4", "pause"]]


def test_a_run_that_fails_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seed: int) -> Outcome:
        raise Violation("two leaders")

    monkeypatch.setattr(many, "run_seed", fail)
    result = run_or_fail(9)
    assert result == Failed(9, "Violation: two leaders")
    assert result.command == "python -m tests.kit.simulation --seed 9 --trace"
