"""How many messages a second does one Python process publish, confirmed, and consume, at 100 bytes
and at 1 kB; and what CPU time does that cost the broker, and how much memory does it have after it.
Beside it, where peers are asked for, confluent-kafka (librdkafka) with the same broker and with
Kafka: the broker is compared by these two, the client by ours and the last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, pairs, report, rounds
from benchmarks.freed_pages import free_pages
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_OS,
    Pair,
)
from benchmarks.report import Row
from benchmarks.servers import scratch_folder

_SIZES: Final = {"100 B": (100, 1_000_000), "1 kB": (1000, 300_000)}
_COUNT_QUICK: Final = 5_000
_ROUNDS: Final = 5
_UNITS: Final = {
    "produced": "messages/s",
    "consumed": "messages/s",
    "broker CPU, in": "CPU-s/GB",
    "broker CPU, out": "CPU-s/GB",
}
# What ours must be to the other; the design speaks of these sizes only.
_LIMITS: Final = {
    ("100 B", "produced"): ("≥", 1.3),
    ("100 B", "consumed"): ("≥", 1.5),
    ("1 kB", "broker CPU, in"): ("≤", 0.5),
    ("1 kB", "broker CPU, out"): ("≤", 0.5),
}
# And what our broker must be to Kafka, both driven by librdkafka, at any size.
_BROKER_LIMITS: Final = {
    "produced": ("≥", 1.0),
    "consumed": ("≥", 1.0),
    "broker CPU, in": ("≤", 0.5),
    "broker CPU, out": ("≤", 0.5),
}
_MEMORY_LIMIT: Final = ("≤", 0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What one round found."""

    values: dict[str, float]
    server_us: float


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rows: list[Row] = []
    with pairs.running(peers=peers) as measured, scratch_folder() as folder:
        for size, (value_bytes, messages) in _SIZES.items():
            amount = _COUNT_QUICK if quick else messages
            measures = {
                pair.name: _measuring(
                    pair, folder, f"{position}-{value_bytes}", value_bytes, amount
                )
                for position, pair in enumerate(measured)
            }
            found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
            for what in _UNITS:
                by_name = {name: [one.values[what] for one in of] for name, of in found.items()}
                rows += _rows(size, what, by_name)
        memory = {pair.name: pair.server.resident_bytes / 1e6 for pair in measured}
    return rows + _memory_rows(memory)


def _measuring(
    pair: Pair, folder: Path, name: str, value_bytes: int, amount: int
) -> Callable[[], Moved]:
    numbers = count()

    def measure() -> Moved:
        free_pages(folder, amount * value_bytes)
        return _measure(pair, f"client-{name}-{next(numbers)}", value_bytes, amount)

    return measure


def _measure(pair: Pair, topic: str, value_bytes: int, amount: int) -> Moved:
    pair.create_topic(topic)
    client, server = pair.client, pair.server
    gigabytes = amount * value_bytes / 1e9
    cpu_before_s = server.cpu_s
    produce_s = client.produce(server.bootstrap, topic, bytes(value_bytes), amount)
    cpu_between_s = server.cpu_s
    consume_s = client.consume(server.bootstrap, topic, value_bytes, amount)
    cpu_after_s = server.cpu_s
    return Moved(
        values={
            "produced": amount / produce_s,
            "consumed": amount / consume_s,
            "broker CPU, in": (cpu_between_s - cpu_before_s) / gigabytes,
            "broker CPU, out": (cpu_after_s - cpu_between_s) / gigabytes,
        },
        server_us=(cpu_after_s - cpu_before_s) / amount * 1e6,
    )


def _rows(size: str, what: str, by_name: dict[str, list[float]]) -> list[Row]:
    question = f"client, {size}, {what}"
    medians = {name: median(values) for name, values in by_name.items()}
    rows = [
        report.of_rounds(question, name, values, _UNITS[what]) for name, values in by_name.items()
    ]
    limits = {
        (PENSTOCK_OS, CONFLUENT): _LIMITS.get((size, what)),
        (CONFLUENT_OS, CONFLUENT): _BROKER_LIMITS[what],
        (CONFLUENT_FSYNC, CONFLUENT): None,
    }
    return rows + budgets.ratios(question, medians, limits)


def _memory_rows(megabytes: dict[str, float]) -> list[Row]:
    """Ours served all pairs but the last, Kafka that one only."""
    question = "memory after this load"
    kept = {name: value for name, value in megabytes.items() if name in (CONFLUENT_OS, CONFLUENT)}
    rows = [Row(question, name, value, "MB") for name, value in kept.items()]
    return rows + budgets.ratios(question, kept, {(CONFLUENT_OS, CONFLUENT): _MEMORY_LIMIT})
