"""How long does one small produce take, with one in flight: median and 99th percentile, beside the
floor's, beside Kafka's, and beside a flush of this disk in the same run."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, subjects
from benchmarks.load import percentile
from benchmarks.report import Row
from benchmarks.servers import scratch_folder
from benchmarks.subjects import FLOOR, KAFKA, PENSTOCK_FSYNC, PENSTOCK_OS, Subject
from benchmarks.wire import record_batch

FLUSH_ALONE: Final = "fdatasync alone"
_FLUSH_BUDGET_US: Final = 150


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds, count = (1, 200) if quick else (5, 1000)
    times_us: dict[str, list[float]] = defaultdict(list)
    with subjects.running(quick=quick, peers=peers) as measured, scratch_folder() as folder:
        for _ in range(rounds):
            for subject in measured:
                times_us[subject.name] += _round_trips_us(subject, count)
            times_us[FLUSH_ALONE] += _flushes_us(folder / "flushed", count)
    rows = []
    for name, times in times_us.items():
        rows.append(Row("produce round trip, median", name, median(times), "µs"))
        rows.append(Row("produce round trip, p99", name, percentile(times, 0.99), "µs"))
    medians = {name: median(times) for name, times in times_us.items()}
    limits = {(PENSTOCK_OS, FLOOR): ("≤", 1.3), (PENSTOCK_OS, KAFKA): ("≤", 1.0)}
    rows += budgets.ratios("produce round trip, median", medians, limits)
    added_us = medians[PENSTOCK_FSYNC] - medians[FLUSH_ALONE]
    name = f"{PENSTOCK_FSYNC} minus {FLUSH_ALONE}"
    rows.append(
        budgets.at_most("produce round trip, median", name, added_us, "µs", _FLUSH_BUDGET_US)
    )
    return sorted(rows, key=lambda row: row.question)


def _round_trips_us(subject: Subject, count: int) -> list[float]:
    request = subject.wire.produce(subject.topic, 0, record_batch(100, 1), 1)
    with subject.link() as link:
        link.round_trips_ns(request, count // 10)  # the new connection's first calls are slower
        return [time_ns / 1000 for time_ns in link.round_trips_ns(request, count)]


def _flushes_us(path: Path, count: int) -> list[float]:
    """What the disk asks for a small append that must last."""
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    small = bytes(200)
    times = []
    try:
        for _ in range(count):
            start = time.perf_counter_ns()
            os.write(file, small)
            os.fdatasync(file)
            times.append((time.perf_counter_ns() - start) / 1000)
    finally:
        os.close(file)
    return times
