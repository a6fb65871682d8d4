"""In which order tests run, and where: the long ones first, Spark in few processes.

pytest-xdist hands a unit of tests to each process that has little left. A unit is a file of short
tests, or one long test. What takes how long is known from `seconds.json`, and of those marked
`soak` from `soak.json`; a run with `--keep-seconds` brings both up to date. What is in neither is
taken for long where it may be: if it began last, all would wait for it alone. The invariant: what
is known or guessed has an influence on when a test runs, never on whether.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.kit.runs import slices
from tests.kit.runs.first_time import first_time
from tests.kit.runs.slices import soak_seconds

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

TABLE = Path(__file__).with_name("seconds.json")
SECONDS_MIN = 1.0
"""Whatever takes less is not worth a line of the table."""
FILE_SECONDS_MAX = 15
"""The tests of a file that takes longer are handed out one at a time."""
SOAK_SECONDS = 60.0
"""What a test marked `soak` is taken for that was never measured."""
SPARK = "tests/system/spark/"
WHOLE = (SPARK, "tests/system/kafka/")
"""A file of these starts clients of its own: it is handed out whole, whatever it takes."""
SPARK_PROCESSES_MAX = 2
"""Each has a JVM of about a gigabyte, and compiles all that Spark makes anew."""


@functools.cache
def known_seconds() -> dict[str, float]:
    """Of tests, by their names."""
    return {**json.loads(TABLE.read_text()), **soak_seconds()}


@functools.cache
def _seconds_of_files() -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for name, taken in known_seconds().items():
        seconds[_file(name)] += taken
    return dict(seconds)


def unit_of(name: str) -> str:
    """What the test is handed out with: its file, or nothing else."""
    is_long = _seconds_of_files().get(_file(name), 0.0) > FILE_SECONDS_MAX
    return name if is_long and not name.startswith(WHOLE) else _file(name)


def expected_seconds(items: Iterable[pytest.Item]) -> dict[str, float]:
    """Of all units of these tests."""
    known, files = known_seconds(), _seconds_of_files()
    seconds: dict[str, float] = defaultdict(float)
    for item in items:
        is_soak = item.get_closest_marker("soak") is not None
        # Where others of its file are in the table, one that is not is short.
        guess = SOAK_SECONDS if is_soak else 0.0
        seconds[unit_of(item.nodeid)] += known.get(item.nodeid, guess)
    for unit in seconds:
        if unit == _file(unit) and unit not in files:
            seconds[unit] += _seconds_of_a_file(os.path.dirname(unit))
    return seconds


@functools.cache
def _seconds_of_a_file(folder: str) -> float:
    """On average, of those that are known."""
    known = [
        taken for file, taken in _seconds_of_files().items() if os.path.dirname(file) == folder
    ]
    return sum(known) / len(known) if known else 0.0


def _file(name: str) -> str:
    return name.partition("::")[0]


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Units in the order in which their tests were collected, which `order` made."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._indices: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Spark's first, for whom may run them: they are the longest of all."""
        unit = self._next_unit(node)
        if unit is None:
            node.shutdown()
            return
        tests = self.workqueue.pop(unit)
        self.assigned_work[node][unit] = tests
        if not self._indices:
            of_node = self.registered_collections[node]  # and so of every other
            self._indices.update((name, index) for index, name in enumerate(of_node))
        node.send_runtest_some(
            [self._indices[name] for name, is_done in tests.items() if not is_done]
        )

    def _next_unit(self, node: WorkerController) -> str | None:
        units: list[str] = list(self.workqueue)
        of_spark = [unit for unit in units if unit.startswith(SPARK)]
        others = [unit for unit in units if not unit.startswith(SPARK)]
        if self.nodes.index(node) >= SPARK_PROCESSES_MAX:
            return next(iter(others), None)
        if of_spark and others and first_time.is_making_archive:
            return others[-1]  # short: Spark's begin as soon as they can
        return next(iter(of_spark or others), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-seconds", action="store_true", help="Bring tests/kit/runs/seconds.json up to date."
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadscope" else None


def order(items: list[pytest.Item]) -> None:
    """Tests of long units first, in the processes that `LongestFirst` tells what to run."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        seconds = expected_seconds(items)
        items.sort(key=lambda item: -seconds[unit_of(item.nodeid)])


def keep_seconds(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--keep-seconds"):
        return
    taken: dict[str, float] = defaultdict(float)
    long: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                taken[report.nodeid] += report.duration
                if "soak" in report.keywords:
                    long.add(report.nodeid)
    before = {name: seconds for name, seconds in known_seconds().items() if name not in taken}
    after = before | {name: round(seconds, 1) for name, seconds in taken.items()}
    long |= soak_seconds().keys()
    _write(slices.TABLE, {name: after[name] for name in long})
    _write(TABLE, {n: s for n, s in after.items() if n not in long and s >= SECONDS_MIN})


def _write(table: Path, seconds: dict[str, float]) -> None:
    table.write_text(json.dumps(dict(sorted(seconds.items())), indent=0) + "\n")
