"""From the call that publishes a message until a consumer in another process has it, at a steady
pace: measured for one client and whatever serves it.

Not a question of its own. Invariant: every message is in the latencies, the slow ones too.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from typing import Final, Protocol

from benchmarks.load import percentile
from benchmarks.pairs import PacedClient, Served

VALUE_BYTES: Final = 1000
_WAIT_S_MAX: Final = 60.0


class Measured(Protocol):
    """A client and what it talks to."""

    @property
    def client(self) -> PacedClient: ...

    @property
    def server(self) -> Served: ...

    @property
    def create_topic(self) -> Callable[[str], None]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """What one run found."""

    latencies_ns: list[int]
    core_share: float
    """What the servers used of a core."""
    server_us: float
    """And for each message, in microseconds."""
    per_s: float
    """Messages that were really sent in a second: a machine that is too slow for the pace sends
    fewer, and its latencies are of that pace."""


def measure(pair: Measured, topic: str, ticks: int, per_tick: int) -> Paced:
    """`per_tick` messages each millisecond."""
    pair.create_topic(topic)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    arguments = (pair.client.latencies_ns, pair.server.bootstrap, topic, ticks * per_tick, theirs)
    consumer = spawn.Process(target=_consume, args=arguments)
    consumer.start()
    theirs.close()  # so that the end of a broken consumer is the end of the pipe
    start_s = cpu_before_s = 0.0

    def wait_for_consumer() -> None:
        nonlocal start_s, cpu_before_s
        assert ours.poll(_WAIT_S_MAX), "the consumer has seen the first message"
        ours.recv()
        start_s, cpu_before_s = time.perf_counter(), pair.server.cpu_s

    try:
        pair.client.send_paced(
            pair.server.bootstrap, topic, VALUE_BYTES, ticks, per_tick, wait_for_consumer
        )
        elapsed_s = time.perf_counter() - start_s
        cpu_s = pair.server.cpu_s - cpu_before_s
        assert ours.poll(_WAIT_S_MAX), "the consumer has seen all messages"
        sent = ticks * per_tick
        return Paced(
            latencies_ns=ours.recv(),
            core_share=cpu_s / elapsed_s,
            server_us=cpu_s / sent * 1e6,
            per_s=sent / elapsed_s,
        )
    finally:
        consumer.terminate()
        consumer.join()
        ours.close()


def measuring(pair: Measured, name: str, ticks: int, per_tick: int) -> Callable[[], Paced]:
    """One run after the other, each on a topic of its own."""
    numbers = count()
    return lambda: measure(pair, f"{name}-{next(numbers)}", ticks, per_tick)


def percentiles_ms(runs: Mapping[str, Sequence[Paced]], share: float) -> dict[str, list[float]]:
    """Of each run by itself."""
    return {
        name: [percentile(run.latencies_ns, share) / 1e6 for run in of] for name, of in runs.items()
    }


def _consume(
    latencies_ns: Callable[[str, str, int, Callable[[], None]], list[int]],
    bootstrap: str,
    topic: str,
    count: int,
    answers: Connection,
) -> None:
    """The consumer's process."""
    answers.send(latencies_ns(bootstrap, topic, count, lambda: answers.send("ready")))
