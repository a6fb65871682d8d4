"""How many produce requests of one small message a second does a broker take from one connection
that does not wait for the answers, and how much CPU time does each cost it."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Final

from benchmarks import budgets, subjects
from benchmarks.report import Row
from benchmarks.subjects import (
    FLOOR,
    KAFKA,
    KAFKA_FLUSHED,
    PENSTOCK_FSYNC,
    PENSTOCK_OS,
    Subject,
)

_WINDOWS: Final = (100, 1000)
_LIMITS: Final = {
    (PENSTOCK_OS, FLOOR): ("≥", 0.6),
    (PENSTOCK_OS, KAFKA): ("≥", 4.0),
    (PENSTOCK_FSYNC, KAFKA_FLUSHED): ("≥", 8.0),
}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds, seconds = (1, 0.2) if quick else (3, 2.0)
    rows: list[Row] = []
    with subjects.running(quick=quick, peers=peers) as measured:
        for window in _WINDOWS:
            rates: dict[str, list[float]] = defaultdict(list)
            costs_us: dict[str, list[float]] = defaultdict(list)
            for _ in range(rounds):
                for subject in measured:
                    rate, cost_us = _pipeline(subject, window, seconds)
                    rates[subject.name].append(rate)
                    costs_us[subject.name].append(cost_us)
            question = f"produce pipelined, {window} in flight"
            for name, values in rates.items():
                note = f"{median(costs_us[name]):.1f} µs of server CPU each"
                rows.append(Row(question, name, median(values), "requests/s", note))
            medians = {name: median(values) for name, values in rates.items()}
            rows += budgets.ratios(question, medians, _LIMITS)
            for name, values in costs_us.items():
                rows.append(Row(f"{question}, CPU", name, median(values), "µs/request"))
    return rows


def _pipeline(subject: Subject, window: int, seconds: float) -> tuple[float, float]:
    """Requests a second, and the server's CPU time for one in microseconds."""
    blocks = subject.small_blocks(window)
    with subject.link() as link:
        cpu_before_s = subject.server.cpu_s
        done = link.pipeline(
            blocks, requests_per_block=window // 2, blocks_in_flight=2, seconds_max=seconds
        )
        cpu_s = subject.server.cpu_s - cpu_before_s
    return done.per_s, cpu_s / done.answers * 1e6
