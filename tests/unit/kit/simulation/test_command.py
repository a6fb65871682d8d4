"""The command runs a seed or many, and its exit code tells."""

from __future__ import annotations

import pytest

from tests.kit.simulation import command
from tests.kit.simulation.checkers import Violation
from tests.kit.simulation.command import main
from tests.kit.simulation.many import Failed
from tests.kit.simulation.runs import Outcome
from tests.kit.simulation.trace import Trace


def test_one_seed_with_its_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "0", "--trace"]) == 0
    output = capsys.readouterr().out
    assert "Outcome(seed=0" in output
    assert "starts as 1/1" in output


def test_a_seed_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(seed: int, trace: Trace) -> Outcome:
        trace.note(5, "broker 1", "crashes")
        raise Violation("two leaders")

    monkeypatch.setattr(command, "WORLDS", {"clusters": fail})
    assert main(["--seed", "4", "--trace"]) == 1
    output = capsys.readouterr().out
    assert output.index("broker 1   crashes") < output.index("Violation: two leaders")


def test_many_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "0:2", "--processes", "1"]) == 0
    assert "2 seeds, none failed" in capsys.readouterr().out


def test_many_seeds_of_which_one_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [Failed(0, "one"), Failed(1, "another")]
    monkeypatch.setattr(command, "run_many", lambda *_, **__: iter(results))
    assert main(["--seeds", "2", "--until-failure"]) == 1
    output = capsys.readouterr().out
    assert "python -m tests.kit.simulation --seed 0 --trace" in output
    assert "another" not in output
