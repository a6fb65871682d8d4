"""How many produce requests of one small message a second does a broker take from one connection
that does not wait for the answers, and how much CPU time does each cost it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from benchmarks import budgets, report, rounds, subjects
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
_ROUNDS: Final = 5
_LIMITS: Final = {
    (PENSTOCK_OS, FLOOR): ("≥", 0.6),
    (PENSTOCK_OS, KAFKA): ("≥", 4.0),
    (PENSTOCK_FSYNC, KAFKA_FLUSHED): ("≥", 8.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipelined:
    """What one round found."""

    per_s: float
    server_us: float


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    seconds = 0.2 if quick else 2.0
    rows: list[Row] = []
    with subjects.running(peers=peers) as measured:
        for window in _WINDOWS:
            measures = {
                subject.name: partial(_pipeline, subject, window, seconds) for subject in measured
            }
            found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
            question = f"produce pipelined, {window} in flight"
            rates = {name: [run.per_s for run in of] for name, of in found.items()}
            rows += [
                report.of_rounds(question, name, of, "requests/s") for name, of in rates.items()
            ]
            medians = {name: median(of) for name, of in rates.items()}
            rows += budgets.ratios(question, medians, _LIMITS)
            rows += [
                report.of_rounds(
                    f"{question}, CPU", name, [run.server_us for run in of], "µs/request"
                )
                for name, of in found.items()
            ]
    return rows


def _pipeline(subject: Subject, window: int, seconds: float) -> Pipelined:
    blocks = subject.small_blocks(window)
    with subject.link() as link:
        cpu_before_s = subject.server.cpu_s
        done = link.pipeline(
            blocks, requests_per_block=window // 2, blocks_in_flight=2, seconds_max=seconds
        )
        cpu_s = subject.server.cpu_s - cpu_before_s
    return Pipelined(per_s=done.per_s, server_us=cpu_s / done.answers * 1e6)
