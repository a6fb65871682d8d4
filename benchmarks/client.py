"""How many messages a second does one Python process publish, confirmed, and consume, at 100 bytes
and at 1 kB; and what CPU time does that cost the broker, and how much memory does it have after it.
Beside it, where peers are asked for, confluent-kafka (librdkafka) with the same broker and with
Kafka: the broker is compared by these two, the client by ours and the last."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Final

from benchmarks import budgets, pairs
from benchmarks.freed_pages import free_pages
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_OS,
    WARM_UP_ROUNDS,
    Pair,
)
from benchmarks.report import Row
from benchmarks.servers import scratch_folder

_SIZES: Final = {"100 B": (100, 1_000_000), "1 kB": (1000, 300_000)}
_COUNT_QUICK: Final = 5_000
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


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds = 1 if quick else 3
    rows: list[Row] = []
    with pairs.running(peers=peers) as measured, scratch_folder() as folder:
        for size, (value_bytes, count) in _SIZES.items():
            values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
            for number in range(WARM_UP_ROUNDS + rounds):
                for position, pair in enumerate(measured):
                    topic = f"client-{position}-{value_bytes}-{number}"
                    count = _COUNT_QUICK if quick else count
                    free_pages(folder, count * value_bytes)
                    found = _measure(pair, topic, value_bytes, count)
                    if number >= WARM_UP_ROUNDS:
                        for what, value in found.items():
                            values[what][pair.name].append(value)
            for what, by_name in values.items():
                rows += _rows(size, what, by_name)
        memory = {pair.name: pair.server.resident_bytes / 1e6 for pair in measured}
    return rows + _memory_rows(memory)


def _measure(pair: Pair, topic: str, value_bytes: int, count: int) -> dict[str, float]:
    pair.create_topic(topic)
    client, server = pair.client, pair.server
    gigabytes = count * value_bytes / 1e9
    cpu_before_s = server.cpu_s
    produce_s = client.produce(server.bootstrap, topic, bytes(value_bytes), count)
    cpu_between_s = server.cpu_s
    consume_s = client.consume(server.bootstrap, topic, value_bytes, count)
    cpu_after_s = server.cpu_s
    return {
        "produced": count / produce_s,
        "consumed": count / consume_s,
        "broker CPU, in": (cpu_between_s - cpu_before_s) / gigabytes,
        "broker CPU, out": (cpu_after_s - cpu_between_s) / gigabytes,
    }


def _rows(size: str, what: str, by_name: dict[str, list[float]]) -> list[Row]:
    question = f"client, {size}, {what}"
    medians = {name: median(values) for name, values in by_name.items()}
    rows = [Row(question, name, value, _UNITS[what]) for name, value in medians.items()]
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
