"""How long from the call that publishes a message until a consumer in another process has it, at a
steady 20,000 messages of 1 kB a second; and what share of a core the broker needs for it.

The producer sends twenty messages each millisecond, with a linger of one millisecond. Invariant:
every message is in the percentiles, the slow ones too.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable
from multiprocessing.connection import Connection
from statistics import median
from typing import Final

from benchmarks import budgets, pairs
from benchmarks.load import percentile
from benchmarks.pace import PER_TICK
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_OS,
    WARM_UP_ROUNDS,
    Pair,
)
from benchmarks.report import Row

_QUESTION: Final = "end to end, 20,000 of 1 kB a second"
_VALUE_BYTES: Final = 1000
_WAIT_S_MAX: Final = 60.0
# The percentile, and what ours must be to the other where the design says so.
_PERCENTILES: Final = {0.5: None, 0.99: ("≤", 0.5), 0.999: None}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds, ticks = (1, 100) if quick else (3, 5_000)
    times_ns: dict[str, list[int]] = defaultdict(list)
    cores: dict[str, list[float]] = defaultdict(list)
    with pairs.running(peers=peers) as measured:
        for number in range(WARM_UP_ROUNDS + rounds):
            for position, pair in enumerate(measured):
                found_ns, core_share = _measure(pair, f"paced-{position}-{number}", ticks)
                if number >= WARM_UP_ROUNDS:
                    times_ns[pair.name] += found_ns
                    cores[pair.name].append(core_share)
    rows: list[Row] = []
    for share, limit in _PERCENTILES.items():
        question = f"{_QUESTION}, p{share * 100:g}"
        values = {name: percentile(times, share) / 1e6 for name, times in times_ns.items()}
        rows += [Row(question, name, value, "ms") for name, value in values.items()]
        limits = {
            (PENSTOCK_OS, CONFLUENT): limit,
            (CONFLUENT_OS, CONFLUENT): limit,
            (CONFLUENT_FSYNC, CONFLUENT): None,
        }
        rows += budgets.ratios(question, values, limits)
    question = f"{_QUESTION}, broker CPU"
    percents = {name: median(shares) * 100 for name, shares in cores.items()}
    rows += [Row(question, name, percent, "% of a core") for name, percent in percents.items()]
    return rows + budgets.ratios(question, percents, {(CONFLUENT_OS, CONFLUENT): ("≤", 0.5)})


def _measure(pair: Pair, topic: str, ticks: int) -> tuple[list[int], float]:
    """The latencies, and the broker's share of a core."""
    pair.create_topic(topic)
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    arguments = (pair.client.latencies_ns, pair.server.bootstrap, topic, ticks * PER_TICK, theirs)
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
        pair.client.send_paced(pair.server.bootstrap, topic, _VALUE_BYTES, ticks, wait_for_consumer)
        core_share = (pair.server.cpu_s - cpu_before_s) / (time.perf_counter() - start_s)
        assert ours.poll(_WAIT_S_MAX), "the consumer has seen all messages"
        return ours.recv(), core_share
    finally:
        consumer.terminate()
        consumer.join()
        ours.close()


def _consume(
    latencies_ns: Callable[[str, str, int, Callable[[], None]], list[int]],
    bootstrap: str,
    topic: str,
    count: int,
    answers: Connection,
) -> None:
    """The consumer's process."""
    answers.send(latencies_ns(bootstrap, topic, count, lambda: answers.send("ready")))
