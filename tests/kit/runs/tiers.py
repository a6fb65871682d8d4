"""Which of the long tests run, and which seeds: so that none is only for nights, and no two commits
are tested alike.

A test marked `soak` is long. It runs in `make soak`, when its file or itself is named, and in one
slice of five (`slices`), that of the commit's number, so that the next commits run the others. Of
the seeds of a simulation half are always the same and half are drawn by the commit. Both are said
at the end of a run, and `SLICE=n DRAW=n` in the environment runs the same again.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.runs.slices import SLICES, slice_of

IS_SOAK = bool(os.environ.get("SOAK"))
"""Whether everything runs, with long settings."""

UNIT_SECONDS_MAX = 1.0
"""What a unit test may take of a processor. Where the limit was set none takes half of it, or two
thirds while others use the machine; most take a thousandth."""

_UNIT = "tests/unit/"
# Of a little work, and what it took where the limit was set.
_STEPS = 1_000_000
_STEPS_S = 0.03
_SOAK_FACTOR = 10
_DRAWN_AFTER = 1_000_000


@functools.cache
def _commit() -> int:
    """The number of what is tested; 0 where nobody knows."""
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, check=False)
    return int(done.stdout or b"0", 16)


def slice_number() -> int:
    return int(os.environ.get("SLICE") or _commit()) % SLICES


def first_drawn() -> int:
    """The first of the commit's own seeds: a million and more, to which no fixed seed reaches."""
    return int(os.environ.get("DRAW") or _DRAWN_AFTER * (1 + _commit() % 1_000))


def seeds(count: int, part: int = 0, parts: int = 1) -> list[int]:
    """So many seeds, half of them the commit's own; in a soak as many that are always the same, and
    many more of the commit's. Of several parts together it is all of them; of one alone, every
    so-many-th."""
    half = count // 2
    return [*range(count if IS_SOAK else half), *drawn(count - half)][part::parts]


def drawn(count: int) -> range:
    """So many seeds of the commit's own."""
    return range(first_drawn(), first_drawn() + long(count))


def long(setting: int) -> int:
    """A setting as it is; in a soak, ten times of it."""
    return setting * _SOAK_FACTOR if IS_SOAK else setting


def runs_now(nodeid: str) -> bool:
    """Whether a soak test is in this slice."""
    return IS_SOAK or slice_of(nodeid) == slice_number()


@contextlib.contextmanager
def short(nodeid: str) -> Iterator[None]:
    """There are eight thousand unit tests, and they run before every commit: fails one that takes
    too much, unless it has failed already."""
    before_s = time.process_time()
    with _collecting() as collected:
        yield
    taken_s = time.process_time() - before_s - collected.taken_s
    if not nodeid.startswith(_UNIT) or taken_s <= UNIT_SECONDS_MAX:
        return
    seconds_max = UNIT_SECONDS_MAX * _slowness()
    if taken_s > seconds_max:
        pytest.fail(
            f"it took {taken_s:.2f} s of the processor, {seconds_max:.2f} s is the limit: "
            "take less of everything, or move it from the unit tests"
        )


class _Collected:
    """How long garbage was looked for: that goes by what other tests have left behind."""

    def __init__(self) -> None:
        self.taken_s = 0.0
        self._began_s = 0.0

    def __call__(self, phase: str, _: object) -> None:
        if phase == "start":
            self._began_s = time.thread_time()
        else:
            self.taken_s += time.thread_time() - self._began_s


@contextlib.contextmanager
def _collecting() -> Iterator[_Collected]:
    collected = _Collected()
    gc.callbacks.append(collected)
    try:
        yield collected
    finally:
        gc.callbacks.remove(collected)


def _slowness() -> float:
    """How much more of a processor things take here and now than where the limit was set."""
    before_s = time.thread_time()
    sum(number * number for number in range(_STEPS))
    return max(1.0, (time.thread_time() - before_s) / _STEPS_S)


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long ones of other slices."""
    # Folders alone are named where much runs; who names a file wants what is in it.
    if any(".py" in argument for argument in config.args):
        return
    later = [
        item for item in items if item.get_closest_marker("soak") and not runs_now(item.nodeid)
    ]
    if later:
        left_out = set(later)
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=later)


def say(terminalreporter: pytest.TerminalReporter) -> None:
    """What was run, and how to run it again."""
    if IS_SOAK:
        terminalreporter.write_line(f"all slices · seeds drawn from {first_drawn()} on")
    else:
        terminalreporter.write_line(
            f"slice {slice_number()} of the long tests · seeds drawn from {first_drawn()} on · "
            f"the same again: SLICE={slice_number()} DRAW={first_drawn()} make test"
        )
