"""How much of the machine others used while a question was asked.

Foreign load does not fall on all subjects alike. Where processes of other sessions keep the cores
busy, a thread that wakes from a flush may wait for the scheduler's next tick (4 ms at 250 Hz): a
flush of 150 µs was seen to take 3,800. A server that flushes for each request then answers 150
requests a second instead of 2,200, while one that groups its flushes hardly notices, so a ratio of
the two flatters us tenfold. Not a correction: a run with such a row must be done again. Invariant:
CPU time of the servers and clients of the question itself is not counted as foreign.
"""

from __future__ import annotations

import os
import resource
import time
from typing import Final

from benchmarks import budgets
from benchmarks.report import Row

QUESTION: Final = "CPU used by others"
_SHARE_PERCENT_MAX: Final = 10.0


class ForeignLoad:
    """Started before a question; asked when its processes have ended, because the kernel counts a
    child's CPU time as ours when it has been waited for."""

    def __init__(self) -> None:
        self._start_s = time.monotonic()
        self._foreign_before_s = _busy_s() - _own_s()

    def row(self, subject: str) -> Row:
        foreign_s = _busy_s() - _own_s() - self._foreign_before_s
        capacity_s = (time.monotonic() - self._start_s) * (os.cpu_count() or 1)
        # The kernel's two counts differ by a tick here and there.
        percent = max(0.0, foreign_s / capacity_s * 100)
        unit = "% of the machine"
        return budgets.at_most(QUESTION, subject, percent, unit, _SHARE_PERCENT_MAX)


def _busy_s() -> float:
    """CPU time of everything on the machine, without idling and waiting for the disk."""
    with open("/proc/stat") as counters:
        user, nice, system, _idle, _waiting, *rest = map(int, counters.readline().split()[1:])
    interrupts = sum(rest[:2])  # what follows is stolen or counted in user already
    return (user + nice + system + interrupts) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """CPU time of this process and of all children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )
