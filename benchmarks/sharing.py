"""How fast a group of consumers, each a process of its own, takes what a topic holds: measured for
one client and what serves it.

Not a question of its own. The consumers are connected before the clock starts, and it stops with
the last confirmed acknowledgement. Invariant: every message was taken by exactly one of them.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Final, Protocol

from benchmarks.pairs import Served

# Messages that a consumer asks for at once, whatever it speaks, unless the question says otherwise.
BATCH: Final = 500
# Without a message for so long, a consumer has its outcomes confirmed; and for so long, it ends.
LULL_S: Final = 0.02
IDLE_S: Final = 1.0
_WAIT_S_MAX: Final = 120.0


class Taken:
    """What one consumer took: its client says `batch` for each, and `confirmed`."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self.confirmed_ns = 0
        self.cpu_s = 0.0
        self._cpu_before_s = time.process_time()
        self._is_confirmed = True
        self._last_s = time.monotonic()

    def batch(self, count: int, size_bytes: int) -> None:
        self.count += count
        self.size_bytes += size_bytes
        self._is_confirmed = False
        self._last_s = time.monotonic()

    @property
    def is_to_be_confirmed(self) -> bool:
        return not self._is_confirmed

    def confirmed(self) -> None:
        self._is_confirmed = True
        self.confirmed_ns = time.monotonic_ns()
        self.cpu_s = time.process_time() - self._cpu_before_s

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self._last_s > IDLE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What a consumer does: ask for so many at once, and be busy with each for so long."""

    batch: int = BATCH
    message_s: float = 0.0

    def on(self, value: bytes | None) -> int:
        """The size of what was worked on. Waiting stands for work, so that cores do not decide."""
        if self.message_s:
            time.sleep(self.message_s)
        return len(value or b"")


Gate = Callable[[], None]
Share = Callable[[str, str, str, Work, Gate], Taken]
"""Of a client: (bootstrap, topic, group, work, gate). It connects, joins, passes the gate, and
takes messages until there are none, each acknowledged."""


class SharingClient(Protocol):
    """What a module that drives a client offers."""

    def produce(self, bootstrap: str, topic: str, value: bytes, count: int) -> float: ...

    def share(self, bootstrap: str, topic: str, group: str, work: Work, gate: Gate) -> Taken: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What one run found."""

    per_s: float
    server_us: float
    """CPU time of the server for a message."""
    consumer_us: float
    """CPU time of its consumer for a message."""


def measure(
    share: Share,
    server: Served,
    topic: str,
    group: str,
    work: Work,
    consumers: int,
    total: tuple[int, int],
) -> Shared:
    """total: messages of the topic, and bytes of their values."""
    spawn = multiprocessing.get_context("spawn")
    links: list[Connection] = []
    processes = []
    try:
        for _ in range(consumers):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(
                target=_consume, args=(share, server.bootstrap, topic, group, work, theirs)
            )
            process.start()
            theirs.close()  # so that the end of a broken consumer is the end of the pipe
            links.append(ours)
            processes.append(process)
        for link in links:
            _answer(link)
        start_ns, cpu_before_s = time.monotonic_ns(), server.cpu_s
        for link in links:
            link.send("go")
        found: list[Taken] = [_answer(link) for link in links]
        elapsed_s = (max(one.confirmed_ns for one in found) - start_ns) / 1e9
        cpu_s = server.cpu_s - cpu_before_s
    finally:
        for process in processes:
            process.terminate()
            process.join()
        for link in links:
            link.close()
    taken = sum(one.count for one in found), sum(one.size_bytes for one in found)
    assert taken == total, (taken, total)
    return Shared(
        per_s=total[0] / elapsed_s,
        server_us=cpu_s / total[0] * 1e6,
        consumer_us=sum(one.cpu_s for one in found) / total[0] * 1e6,
    )


def _answer(link: Connection) -> Taken:
    assert link.poll(_WAIT_S_MAX), "the consumer is ready, or done"
    answer: Taken = link.recv()
    return answer


def _consume(
    share: Share, bootstrap: str, topic: str, group: str, work: Work, link: Connection
) -> None:
    """The consumer's process."""

    def gate() -> None:
        link.send(None)
        link.recv()

    link.send(share(bootstrap, topic, group, work, gate))
