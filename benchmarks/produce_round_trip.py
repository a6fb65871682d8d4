"""How long does one small produce take, with one in flight: median and 99th percentile, beside the
floor's, beside Kafka's, and beside a flush of this disk in the same run."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, report, rounds, subjects
from benchmarks.load import percentile
from benchmarks.report import Row
from benchmarks.servers import scratch_folder
from benchmarks.subjects import FLOOR, KAFKA, PENSTOCK_FSYNC, PENSTOCK_OS, Subject
from benchmarks.wire import record_batch

FLUSH_ALONE: Final = "fdatasync alone"
_FLUSH_BUDGET_US: Final = 150
_ROUNDS: Final = 5
# The percentile, and what ours must be to the others.
_LIMITS: Final[dict[float, dict[tuple[str, str], tuple[str, float] | None]]] = {
    0.5: {(PENSTOCK_OS, FLOOR): ("≤", 1.3), (PENSTOCK_OS, KAFKA): ("≤", 1.0)},
    0.99: {(PENSTOCK_OS, FLOOR): ("≤", 1.5), (PENSTOCK_OS, KAFKA): None},
    0.999: {(PENSTOCK_OS, FLOOR): None, (PENSTOCK_OS, KAFKA): None},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTrips:
    """What one round found."""

    times_us: list[float]
    server_us: float


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    count = 200 if quick else 10_000
    with subjects.running(peers=peers) as measured, scratch_folder() as folder:
        measures = {subject.name: partial(_round_trips, subject, count) for subject in measured}
        measures[FLUSH_ALONE] = partial(_flushes, folder / "flushed", count // 10)
        found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
    rows: list[Row] = []
    for share, limits in _LIMITS.items():
        question = f"produce round trip, {'median' if share == 0.5 else f'p{share * 100:g}'}"
        values = {
            name: [percentile(run.times_us, share) for run in of] for name, of in found.items()
        }
        rows += [report.of_rounds(question, name, of, "µs") for name, of in values.items()]
        medians = {name: median(of) for name, of in values.items()}
        rows += budgets.ratios(question, medians, limits)
        if share == 0.5:
            added_us = medians[PENSTOCK_FSYNC] - medians[FLUSH_ALONE]
            name = f"{PENSTOCK_FSYNC} minus {FLUSH_ALONE}"
            rows.append(budgets.at_most(question, name, added_us, "µs", _FLUSH_BUDGET_US))
    return rows


def _round_trips(subject: Subject, count: int) -> RoundTrips:
    request = subject.wire.produce(subject.topic, 0, record_batch(100, 1), 1)
    with subject.link() as link:
        link.round_trips_ns(request, count // 10)  # the new connection's first calls are slower
        cpu_before_s = subject.server.cpu_s
        times_ns = link.round_trips_ns(request, count)
        cpu_s = subject.server.cpu_s - cpu_before_s
    times_us = [time_ns / 1000 for time_ns in times_ns]
    return RoundTrips(times_us=times_us, server_us=cpu_s / count * 1e6)


def _flushes(path: Path, count: int) -> RoundTrips:
    """What the disk asks for a small append that must last."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    small = bytes(200)
    times_us = []
    cpu_before_s = time.process_time()
    try:
        for _ in range(count):
            start = time.perf_counter_ns()
            os.write(file, small)
            os.fdatasync(file)
            times_us.append((time.perf_counter_ns() - start) / 1000)
    finally:
        os.close(file)
    cpu_s = time.process_time() - cpu_before_s
    return RoundTrips(times_us=times_us, server_us=cpu_s / count * 1e6)
