"""Keep the load and the server it is put on apart, each on a core of its own.

Left to itself the scheduler puts two processes that wait for each other on one core or on two as it
likes, and a round trip takes 24 µs or 59: a ratio of the one to the other means nothing. Apart is
what a client on another machine would see. Not done to peers with many threads, which may use
every core. Invariant: after `load` the process may run where it could before.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def load() -> Iterator[None]:
    """This process stays on the load's core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def leave_to_load(pid: int) -> None:
    """The server's event loop, which is its main thread, leaves the load's core; the threads that
    flush may be anywhere."""
    everywhere = os.sched_getaffinity(0)
    others = everywhere - {max(everywhere)}
    if not others:
        return  # a machine of one core has no choice
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), others if int(thread) == pid else everywhere)
