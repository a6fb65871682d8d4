"""How long from the call that publishes a message until a consumer in another process has it, at a
steady 20,000 messages of 1 kB a second; and what share of a core the broker needs for it.

The producer sends twenty messages each millisecond, with a linger of one millisecond. How it is
measured is in `paced`.
"""

from __future__ import annotations

from statistics import median
from typing import Final

from benchmarks import budgets, paced, pairs, report, rounds
from benchmarks.pace import PER_TICK
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_OS,
)
from benchmarks.report import Row

_ROUNDS: Final = 5
_QUESTION: Final = "end to end, 20,000 of 1 kB a second"
# The percentile, and what ours must be to the other where the design says so.
_PERCENTILES: Final = {0.5: None, 0.99: ("≤", 0.5), 0.999: None}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    ticks = 100 if quick else 5_000
    with pairs.running(peers=peers) as measured:
        measures = {
            pair.name: paced.measuring(pair, f"paced-{position}", ticks, PER_TICK)
            for position, pair in enumerate(measured)
        }
        found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
    rows: list[Row] = []
    for share, limit in _PERCENTILES.items():
        question = f"{_QUESTION}, p{share * 100:g}"
        rows += _compared(question, paced.percentiles_ms(found, share), "ms", limit)
    percents = {name: [run.core_share * 100 for run in of] for name, of in found.items()}
    return rows + _compared(f"{_QUESTION}, broker CPU", percents, "% of a core", ("≤", 0.5))


def _compared(
    question: str,
    values: dict[str, list[float]],
    unit: str,
    limit: tuple[str, float] | None,
) -> list[Row]:
    rows = [report.of_rounds(question, name, of, unit) for name, of in values.items()]
    limits = {
        (PENSTOCK_OS, CONFLUENT): limit,
        (CONFLUENT_OS, CONFLUENT): limit,
        (CONFLUENT_FSYNC, CONFLUENT): None,
    }
    medians = {name: median(of) for name, of in values.items()}
    return rows + budgets.ratios(question, medians, limits)
