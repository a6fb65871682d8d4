"""For all tests: the signals a program started from a terminal has, and no haste.

A job that a script puts in the background ignores Ctrl-C, and so would every process that a test
starts; tests of what Ctrl-C does would wait for ever. And an example of a property may take as long
as a loaded machine lets it: how fast something is, benchmarks say. Commands of Penstock are forked
by `warm_processes`; which of the long tests run says `tiers`, in which order and where `schedule`.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.kit.runs import schedule, tiers, warm_processes
from tests.kit.runs.first_time import first_time, is_wanted
from tests.kit.runs.warm_processes import warm

signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("without haste", deadline=None)
settings.load_profile("without haste")


pytest_addoption = schedule.pytest_addoption
pytest_xdist_make_scheduler = schedule.pytest_xdist_make_scheduler


def pytest_configure(config: pytest.Config) -> None:
    warm_processes.install()
    if is_wanted(config):
        first_time.begin()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without looking for garbage: half a million objects are made that stay, and would be looked
    at again and again, now and in whatever test happens to run then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # A broker would take it for a setting, and refuse it.
    os.environ.pop(warm_processes.SWITCH, None)
    tiers.leave_out(config, items)
    schedule.order(items)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    tiers.say(terminalreporter)
    schedule.keep_seconds(terminalreporter, config)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with tiers.short(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    was_on, warm.is_on = warm.is_on, warm.is_on and item.get_closest_marker("executed") is None
    try:
        return (yield)
    finally:
        warm.is_on = was_on


def pytest_unconfigure() -> None:
    warm.end()
    first_time.end()
