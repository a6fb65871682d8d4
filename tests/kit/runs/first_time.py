"""What tests fetch or make once and keep in the user's cache, begun before the first of them asks.

An archive of Spark's classes and a client of Go take a machine of two cores more than half a minute
each, the first time. Two processes make them while tests are collected and the first ones run. Not
how: that is `kit.spark.archive` and `provide`. The invariant: a test finds everything whether these
processes have come to their end or not, for it waits for them, or makes it itself.

Run as a program, it is one of the two.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Tests go before what only some of them will need.
_NICE = 5


class FirstTime:
    """The two processes, of a run that has tests for them."""

    def __init__(self) -> None:
        self._spark: subprocess.Popen[bytes] | None = None
        self._clients: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        self._spark, self._clients = _start("spark"), _start("clients")

    @property
    def is_making_archive(self) -> bool:
        """Whether a test of Spark would only wait."""
        return self._spark is not None and self._spark.poll() is None

    def end(self) -> None:
        for process in (self._spark, self._clients):
            if process is not None:
                # Nobody uses what is half made.
                process.send_signal(signal.SIGINT)
                process.wait()


first_time = FirstTime()


def is_wanted(config: pytest.Config) -> bool:
    """In the process that hands out tests, if some of these may be among them."""
    folders = {"tests", "tests/system"}
    is_handing_out = config.getoption("dist", "no") == "loadscope"
    is_running = not config.getoption("collectonly")
    return (
        is_handing_out and is_running and any(each.rstrip("/") in folders for each in config.args)
    )


def _start(what: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kit.runs.first_time", what],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        # Whoever needs what cannot be had is told why.
        stderr=subprocess.DEVNULL,
    )


def _make_archive() -> None:
    from tests.kit.spark.archive import java_options

    java_options()


def _make_clients() -> None:
    from tests.system.kafka import provide

    os.nice(_NICE)
    for make in (provide.java, provide.node, provide.kcat, provide.franz):
        with contextlib.suppress(provide.ClientMissing, pytest.skip.Exception):
            make()


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        {"spark": _make_archive, "clients": _make_clients}[sys.argv[1]]()
