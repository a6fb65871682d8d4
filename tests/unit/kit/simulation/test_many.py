"""What many seeds were worth together."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.kit.simulation import many
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.many import Failed, Summary, run_or_fail
from tests.kit.simulation.runs import Outcome, replay_command
from tests.kit.simulation.trace import Trace


def outcome(seed: int, counts: Counter[str]) -> Outcome:
    return Outcome(
        seed=seed,
        simulated_ms=1_800_000,
        worth=Counter({"elections": 3, "records acknowledged": 1_000, "records read": 10}),
        counts=counts,
        healed_ms={"messages taken": 100 * seed, "copies equal": 205},
        digest="",
    )


def test_a_summary_adds_up() -> None:
    summary = Summary()
    summary.add(outcome(1, Counter(crash=2)))
    summary.add(outcome(2, Counter(crash=1, pause=4)))
    summary.add(Failed(3, "two leaders"))
    text = summary.text()
    assert "3 seeds, failed: 3" in text
    assert "1.0 simulated hours, 6 elections, 2,000 records acknowledged, 20 records read" in text
    assert "messages taken within 200 ms, copies equal within 205 ms" in text
    assert [line.split() for line in text.splitlines()[-2:]] == [["3", "crash"], ["4", "pause"]]


def test_a_run_that_fails_is_told_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(seed: int, trace: Trace | None = None) -> Outcome:
        raise Violation("two leaders")

    monkeypatch.setattr(many, "WORLDS", {"clusters": fail})
    assert run_or_fail("clusters", 9) == Failed(9, "Violation: two leaders")
    assert replay_command("clusters", 9) == "python -m tests.kit.simulation --seed 9 --trace"
    assert replay_command("raft", 9) == "python -m tests.kit.simulation raft --seed 9 --trace"
