"""How long from the call that publishes a message until a consumer in another process has it, at a
steady 20,000 messages of 1 kB a second; and what share of a core the broker needs for it.

The producer sends twenty messages each millisecond, with a linger of one millisecond. How it is
measured is in `paced`.
"""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Final

from benchmarks import budgets, paced, pairs
from benchmarks.load import percentile
from benchmarks.pace import PER_TICK
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_OS,
    WARM_UP_ROUNDS,
)
from benchmarks.report import Row

_QUESTION: Final = "end to end, 20,000 of 1 kB a second"
# The percentile, and what ours must be to the other where the design says so.
_PERCENTILES: Final = {0.5: None, 0.99: ("≤", 0.5), 0.999: None}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds, ticks = (1, 100) if quick else (3, 5_000)
    times_ns: dict[str, list[int]] = defaultdict(list)
    cores: dict[str, list[float]] = defaultdict(list)
    with pairs.running(peers=peers) as measured:
        for number in range(WARM_UP_ROUNDS + rounds):
            for position, pair in enumerate(measured):
                found = paced.measure(pair, f"paced-{position}-{number}", ticks, PER_TICK)
                if number >= WARM_UP_ROUNDS:
                    times_ns[pair.name] += found.latencies_ns
                    cores[pair.name].append(found.core_share)
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
