"""`penstock up` as a process of its own, for tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PENSTOCK = str(Path(sys.executable).with_name("penstock"))
SECONDS_MAX = 20


def environment(**variables: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name[:9] != "PENSTOCK_"}
    return {**kept, **variables}


@contextmanager
def up(*flags: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running broker and the line it printed when it was ready."""
    with subprocess.Popen(
        [PENSTOCK, "up", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**variables),
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline()
        finally:
            process.kill()


def refused(*flags: str, seconds_max: float = SECONDS_MAX, **variables: str) -> str:
    """The one sentence with which the command refuses to start."""
    run = subprocess.run(
        [PENSTOCK, "up", *flags],
        capture_output=True,
        text=True,
        timeout=seconds_max,
        env=environment(**variables),
        check=False,
    )
    assert run.returncode == 1, run
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1, "one line, no traceback"
    return run.stderr


def address_of(line: str) -> str:
    match = re.search(r"listening on (\S+)", line)
    assert match, line
    return match[1]
