"""Functions that are steps: checked without running anything, loaded, sent."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.model.errors import InvalidConfig
from penstock.spark.pipeline.declared.functions import check_function, load_function, module_file

MODULE = """
raise SystemExit("checking runs nothing")
from json import loads as parsed
try:
    import re
except ImportError:
    re = None
made = lambda frame: frame
import os.path
if (found := made):
    for looped in []:
        pass
def defined(frame, parameter=None):
    def inner():
        return frame
    local = [each for each in frame]
    return frame
class Steps:
    def method(self, frame):
        return frame
values = [listed for listed in (lambda: None, print)]
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "steps_checked.py").write_text(MODULE)
    package = tmp_path / "steps_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("def step(frame):\n    return frame\n")
    (tmp_path / "steps_broken.py").write_text("def (")
    return str(tmp_path)


@pytest.mark.parametrize(
    "name", ["parsed", "re", "made", "os", "found", "looped", "defined", "Steps", "values"]
)
def test_whatever_a_module_defines_is_found(name: str, folder: str) -> None:
    check_function("steps_checked", name, folder)


@pytest.mark.parametrize("name", ["inner", "local", "each", "method", "listed", "os.path"])
def test_what_is_inside_something_else_is_not(name: str, folder: str) -> None:
    with pytest.raises(InvalidConfig, match="steps_checked has no"):
        check_function("steps_checked", name, folder)


def test_what_is_not_there_is_told_with_the_nearest(folder: str) -> None:
    check_function("steps_package.inner", "step", folder)
    check_function("math", "sqrt", folder)  # compiled: nothing to look at
    for module, function, message in (
        ("steps_checked", "defind", "did you mean defined"),
        ("steps_none", "x", "no module steps_none"),
        ("steps_package.none", "x", r"no module steps_package\.none"),
        ("steps_broken", "x", "cannot be read: invalid syntax"),
    ):
        with pytest.raises(InvalidConfig, match=message):
            check_function(module, function, folder)


def test_loading_runs_it_and_errors_are_its_own(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    step = load_function("steps_package.inner", "step", folder)
    assert step(5) == 5  # type: ignore[comparison-overlap]
    with pytest.raises(SystemExit):
        load_function("steps_checked", "defined", folder)


def test_what_is_beside_the_file_is_sent_and_what_is_installed_is_not(folder: str) -> None:
    assert module_file("steps_checked", folder) == f"{folder}/steps_checked.py"
    assert module_file("steps_package.inner", folder) == f"{folder}/steps_package"
    assert module_file("json", folder) is None
    assert module_file("steps_none", folder) is None
