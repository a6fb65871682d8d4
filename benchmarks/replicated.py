"""What acks=all with three replicas on three brokers gives and costs: messages a second at 100 B
and 1 kB, from publishing to a consumer in another process at 20,000 and at 1,000 messages of 1 kB
a second, CPU and memory of all three brokers together; where peers are asked for, beside a Kafka
of three brokers on the same machine in the same run.

The topics have one partition and min_insync_replicas 2. Ours are measured with both durabilities:
Kafka's brokers do not flush, so `os` is what compares with it. Kafka acknowledges when all replicas
in sync have a message, ours when a majority has: so CPU is read only when the brokers are quiet
again, and the last copy counts for both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, paced, pairs, penstock_client, report, rounds, servers
from benchmarks.clusters import Cluster, PenstockCluster
from benchmarks.freed_pages import free_pages
from benchmarks.paced import Paced
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_FSYNC,
    PENSTOCK_OS,
    Client,
    Pair,
)
from benchmarks.report import Row

_SIZES: Final = {"100 B": (100, 500_000), "1 kB": (1000, 150_000)}
_COUNT_QUICK: Final = 2_000
# Messages a millisecond, and what the design asks of the 99th percentile.
_PACES: Final = {20: ("≤", 0.5), 1: None}
_PERCENTILES: Final = (0.5, 0.99, 0.999)
_ROUNDS: Final = 5
_CPU_LIMIT: Final = ("≤", 0.5)


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    with servers.scratch_folder() as folder, _running(folder, peers=peers) as measured:
        rows: list[Row] = []
        for size, (value_bytes, messages) in _SIZES.items():
            amount = _COUNT_QUICK if quick else messages
            rows += _throughput(folder, measured, size, value_bytes, amount, quick=quick)
        for per_tick, limit in _PACES.items():
            rows += _latency(measured, per_tick, limit, quick=quick)
        return rows + _memory(measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A client with a durability, and the cluster it talks to."""

    pair: Pair
    cluster: Cluster


@contextlib.contextmanager
def _running(folder: Path, *, peers: bool) -> Iterator[list[Measured]]:
    with contextlib.ExitStack() as stack:
        ours = stack.enter_context(PenstockCluster(folder / "penstock"))
        measured = [
            _measured(PENSTOCK_OS, penstock_client, ours, "os"),
            _measured(PENSTOCK_FSYNC, penstock_client, ours, "fsync"),
        ]
        if peers:
            # Only here, because they ask for packages and programs that only the peers need.
            from benchmarks import librdkafka
            from benchmarks.kafka_cluster import KafkaCluster

            kafka = stack.enter_context(KafkaCluster(folder / "kafka"))
            measured += [
                _measured(CONFLUENT_OS, librdkafka, ours, "os"),
                _measured(CONFLUENT_FSYNC, librdkafka, ours, "fsync"),
                _measured(CONFLUENT, librdkafka, kafka, "os"),
            ]
        yield measured


def _measured(name: str, client: Client, cluster: Cluster, durability: str) -> Measured:
    def create_topic(topic: str) -> None:
        cluster.create_topic(topic, durability=durability)

    pair = pairs.Pair(name=name, client=client, server=cluster, create_topic=create_topic)
    return Measured(pair=pair, cluster=cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """What one round found."""

    per_s: float
    server_us: float


def _throughput(
    folder: Path,
    measured: list[Measured],
    size: str,
    value_bytes: int,
    amount: int,
    *,
    quick: bool,
) -> list[Row]:
    measures = {
        each.pair.name: partial(
            _produce,
            each,
            folder,
            f"produced-{position}-{value_bytes}",
            count(),
            value_bytes,
            amount,
        )
        for position, each in enumerate(measured)
    }
    found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
    question = f"three replicas, {size}"
    rates = {name: [run.per_s for run in of] for name, of in found.items()}
    rows = _compared(f"{question}, produced", rates, "messages/s", ("≥", 1.0))
    limit = _CPU_LIMIT if value_bytes == 1000 else None
    costs = {name: [run.server_us * 1000 / value_bytes for run in of] for name, of in found.items()}
    return rows + _compared(f"{question}, CPU of all brokers", costs, "CPU-s/GB", limit)


def _produce(
    each: Measured, folder: Path, name: str, numbers: Iterator[int], value_bytes: int, amount: int
) -> Produced:
    pair, cluster = each.pair, each.cluster
    topic = f"{name}-{next(numbers)}"
    pair.create_topic(topic)
    free_pages(folder, 3 * amount * value_bytes)
    cluster.wait_until_quiet()
    cpu_before_s = cluster.cpu_s
    elapsed_s = pair.client.produce(cluster.bootstrap, topic, bytes(value_bytes), amount)
    cluster.wait_until_quiet()
    cpu_s = cluster.cpu_s - cpu_before_s
    return Produced(per_s=amount / elapsed_s, server_us=cpu_s / amount * 1e6)


def _latency(
    measured: list[Measured], per_tick: int, limit: tuple[str, float] | None, *, quick: bool
) -> list[Row]:
    ticks = 100 if quick else 5_000
    measures = {
        each.pair.name: _when_quiet(
            each.cluster,
            paced.measuring(each.pair, f"paced-{position}-{per_tick}", ticks, per_tick),
        )
        for position, each in enumerate(measured)
    }
    found = rounds.in_turns(measures, 1 if quick else _ROUNDS, quick=quick)
    question = f"three replicas, {per_tick * 1000:,} of 1 kB a second"
    rows = []
    for share in _PERCENTILES:
        name = f"{question}, p{share * 100:g}"
        milliseconds = paced.percentiles_ms(found, share)
        rows += _compared(name, milliseconds, "ms", limit if share == 0.99 else None)
    rows += [
        report.of_rounds(
            f"{question}, pace that was kept", name, [run.per_s for run in of], "messages/s"
        )
        for name, of in found.items()
    ]
    cpu_limit = _CPU_LIMIT if limit else None
    percents = {name: [run.core_share * 100 for run in of] for name, of in found.items()}
    return rows + _compared(f"{question}, CPU of all brokers", percents, "% of a core", cpu_limit)


def _when_quiet(cluster: Cluster, measure: Callable[[], Paced]) -> Callable[[], Paced]:
    def wait_and_measure() -> Paced:
        cluster.wait_until_quiet()
        return measure()

    return wait_and_measure


def _memory(measured: list[Measured]) -> list[Row]:
    """Ours served all pairs but the last, Kafka that one only."""
    megabytes = {
        each.pair.name: [each.cluster.resident_bytes / 1e6]
        for each in measured
        if each.pair.name in (PENSTOCK_OS, CONFLUENT)
    }
    question = "three replicas, memory of all brokers after this load"
    return _compared(question, megabytes, "MB", ("≤", 0.1))


def _compared(
    question: str,
    values: dict[str, list[float]],
    unit: str,
    limit: tuple[str, float] | None,
) -> list[Row]:
    """The medians, and ours to Kafka's."""
    medians = {name: median(of) for name, of in values.items()}
    rows = [report.of_rounds(question, name, of, unit) for name, of in values.items()]
    limits = {
        (PENSTOCK_OS, CONFLUENT): limit,
        (CONFLUENT_OS, CONFLUENT): limit,
        (PENSTOCK_FSYNC, CONFLUENT): None,
        (CONFLUENT_FSYNC, CONFLUENT): None,
    }
    return rows + budgets.ratios(question, medians, limits)
