"""In which order tests run, and where: the long ones first, Spark in few processes.

pytest-xdist hands a unit of tests to each process that has little left. A unit is a file of short
tests, or one long test. What takes how long is known from `seconds.json`, which a run with
`--keep-seconds` brings up to date; a test that is not in it takes no time. The invariant: what the
table says has an influence on when a test runs, never on whether.
"""

from __future__ import annotations

import functools
import json
import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

TABLE = Path(__file__).with_name("seconds.json")
SECONDS_MIN = 1.0
"""Whatever takes less is not worth a line of the table."""
FILE_SECONDS_MAX = 15
"""The tests of a file that takes longer are handed out one at a time."""
SPARK = "tests/system/spark/"
WHOLE = (SPARK, "tests/system/kafka/")
"""A file of these starts clients of its own: it is handed out whole, whatever it takes."""
SPARK_PROCESSES_MAX = 2
"""Each has a JVM of about a gigabyte, and compiles all that Spark makes anew."""


@functools.cache
def known_seconds() -> dict[str, float]:
    """Of tests, by their names."""
    known: dict[str, float] = json.loads(TABLE.read_text())
    return known


@functools.cache
def _seconds_of_units() -> dict[str, float]:
    """Of files, and of the tests of those that are handed out one at a time."""
    seconds: dict[str, float] = defaultdict(float)
    for name, taken in known_seconds().items():
        seconds[name.partition("::")[0]] += taken
    for name, taken in known_seconds().items():
        if unit_of(name, seconds) == name:
            seconds[name] = taken
    return seconds


def unit_of(name: str, seconds: dict[str, float]) -> str:
    file = name.partition("::")[0]
    is_shared = name.startswith(WHOLE) or seconds.get(file, 0) <= FILE_SECONDS_MAX
    return file if is_shared else name


class LongestFirst(LoadScopeScheduling):  # type: ignore[misc]
    """Units in the order in which their tests were collected, which `order` made."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._indices: dict[str, int] = {}

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid, _seconds_of_units())

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Spark's first, to whom may run them: they are the longest of all."""
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
        may_run_spark = self.nodes.index(node) < SPARK_PROCESSES_MAX
        others: str | None = None
        units: list[str] = list(self.workqueue)
        for unit in units:
            if not unit.startswith(SPARK):
                others = others or unit
                if not may_run_spark:
                    return others
            elif may_run_spark:
                return unit
        return others


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--keep-seconds", action="store_true", help="Bring tests/seconds.json up to date."
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadscope" else None


def order(items: list[pytest.Item]) -> None:
    """Tests of long units first, in the processes that `LongestFirst` tells what to run."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        seconds = _seconds_of_units()
        items.sort(key=lambda item: -seconds.get(unit_of(item.nodeid, seconds), 0))


def keep_seconds(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--keep-seconds"):
        return
    taken: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                taken[report.nodeid] += report.duration
    kept = {name: seconds for name, seconds in known_seconds().items() if name not in taken}
    kept |= {name: round(seconds, 1) for name, seconds in taken.items() if seconds >= SECONDS_MIN}
    TABLE.write_text(json.dumps(dict(sorted(kept.items())), indent=0) + "\n")
