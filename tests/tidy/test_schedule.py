"""In which order tests run, and that each slice of the long ones takes as long as every other."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.kit.runs import schedule
from tests.kit.runs.first_time import FirstTime
from tests.kit.runs.slices import SLICES, divided, slice_of, soak_seconds

ROOT = Path(__file__).parents[2]


def item(name: str, *marks: str) -> pytest.Item:
    found = SimpleNamespace(nodeid=name, get_closest_marker=lambda mark: mark in marks or None)
    return cast(pytest.Item, found)


def test_what_is_not_known_is_taken_for_long_where_it_may_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {"t/a/test_1.py::x": 4.0, "t/a/test_1.py::y": 6.0, "t/a/test_2.py::x": 30.0}
    monkeypatch.setattr(schedule, "known_seconds", lambda: known)
    schedule._seconds_of_files.cache_clear()
    schedule._seconds_of_a_file.cache_clear()
    try:
        expected = schedule.expected_seconds(
            [
                item("t/a/test_1.py::x"),
                item("t/a/test_1.py::new"),
                item("t/a/test_2.py::x"),
                item("t/a/test_2.py::new"),
                item("t/a/test_2.py::long", "soak"),
                item("t/a/test_new.py::x"),
                item("t/a/test_new.py::y"),
                item("t/b/test_new.py::x"),
            ]
        )
    finally:
        schedule._seconds_of_files.cache_clear()
        schedule._seconds_of_a_file.cache_clear()
    assert expected == {
        "t/a/test_1.py": 4.0,  # what runs of it
        "t/a/test_2.py::x": 30.0,
        "t/a/test_2.py::new": 0.0,
        "t/a/test_2.py::long": 60.0,
        "t/a/test_new.py": 20.0,  # as the others of the folder
        "t/b/test_new.py": 0.0,
    }


def test_slices_take_about_as_long() -> None:
    seconds = {f"test {number}": float(number) for number in range(1, 40)}
    slices = divided(seconds)
    assert sorted(name for names in slices for name in names) == sorted(seconds)
    loads = [sum(seconds[name] for name in names) for names in slices]
    assert max(loads) - min(loads) <= 3
    assert 0 <= slice_of("one that is new") < SLICES


@pytest.fixture(scope="module")
def marked() -> set[str]:
    """All tests that are marked `soak`, by their names."""
    files = [
        path for path in (ROOT / "tests").rglob("test_*.py") if "mark.soak" in path.read_text()
    ]
    files = [path for path in files if path != Path(__file__)]
    options = ["-n0", "-qq", "-m", "soak", "--collect-only", "--verbosity=-1"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_every_long_test_has_its_seconds(marked: set[str]) -> None:
    """Or it is in a slice by chance: `--keep-seconds` notes them, and so does a line by hand."""
    assert marked == set(soak_seconds())


def test_the_document_names_every_long_test(marked: set[str]) -> None:
    document = (ROOT / "docs" / "testing.md").read_text()
    table = document[document.index("| takes turns |") : document.index("\n\nIn a soak")]
    named = set(re.findall(r"`(?:\w+/)?(test_\w+)", table))
    assert {name.rpartition("::")[2].partition("[")[0] for name in marked} <= named


def test_while_spark_s_archive_is_made_its_processes_do_short_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheduler = object.__new__(schedule.LongestFirst)
    nodes: list[Any] = [object() for _ in range(3)]
    scheduler.assigned_work = {node: {} for node in nodes}
    units = ["tests/system/a.py", "tests/system/spark/long.py", "tests/unit/b.py"]
    scheduler.workqueue = OrderedDict((unit, {}) for unit in units)
    for is_making, expected in ((True, [units[2], units[0]]), (False, [units[1], units[0]])):
        monkeypatch.setattr(FirstTime, "is_making_archive", is_making)
        assert [scheduler._next_unit(node) for node in (nodes[0], nodes[2])] == expected
    del scheduler.workqueue[units[1]]
    assert scheduler._next_unit(nodes[0]) == units[0]
