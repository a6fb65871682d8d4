"""The runner of scenario files can fail, says where, and rewrites only when it is asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import Busy
from tests.kit.runs.golden_files import run_golden

SCENARIO = """\
# A comment stays.
add 1
add 2
----
3

# So does a remark of its own.

fail
----
Busy: No room: try later.
"""


def interpret(command: str) -> str:
    if command == "fail":
        raise Busy("No room: try later.")
    return str(sum(int(line.split()[1]) for line in command.splitlines()))


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PENSTOCK_REWRITE_GOLDEN", raising=False)
    file = tmp_path / "scenario.txt"
    file.write_text(SCENARIO)
    return file


def test_a_file_that_agrees_passes(path: Path) -> None:
    run_golden(path, interpret)
    assert path.read_text() == SCENARIO


def test_a_difference_fails_and_is_shown(path: Path) -> None:
    path.write_text(SCENARIO.replace("3\n", "4\n"))
    with pytest.raises(AssertionError, match=r"(?s)scenario.txt differs.*-4\n\+3"):
        run_golden(path, interpret)


def test_rewriting_changes_outputs_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_text(SCENARIO.replace("3\n", "").replace("Busy: No", "Yes"))
    monkeypatch.setenv("PENSTOCK_REWRITE_GOLDEN", "1")
    run_golden(path, interpret)
    assert path.read_text() == SCENARIO


def test_an_empty_line_in_an_output_is_refused(path: Path) -> None:
    with pytest.raises(AssertionError, match="an empty line would end the block"):
        run_golden(path, lambda _: "a\n\nb")
