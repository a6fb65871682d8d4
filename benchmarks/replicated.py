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
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, paced, pairs, penstock_client, servers
from benchmarks.clusters import Cluster, PenstockCluster
from benchmarks.freed_pages import free_pages
from benchmarks.load import percentile
from benchmarks.pairs import (
    CONFLUENT,
    CONFLUENT_FSYNC,
    CONFLUENT_OS,
    PENSTOCK_FSYNC,
    PENSTOCK_OS,
    WARM_UP_ROUNDS,
    Client,
    Pair,
)
from benchmarks.report import Row

_SIZES: Final = {"100 B": (100, 500_000), "1 kB": (1000, 150_000)}
_COUNT_QUICK: Final = 2_000
# Messages a millisecond, and what the design asks of the 99th percentile.
_PACES: Final = {20: ("≤", 0.5), 1: None}
_PERCENTILES: Final = (0.5, 0.99, 0.999)
_CPU_LIMIT: Final = ("≤", 0.5)


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    rounds, warm_up = (1, 0) if quick else (3, WARM_UP_ROUNDS)
    with servers.scratch_folder() as folder, _running(folder, peers=peers) as measured:
        rows: list[Row] = []
        for size, (value_bytes, count) in _SIZES.items():
            count = _COUNT_QUICK if quick else count
            rows += _throughput(folder, measured, size, value_bytes, count, (warm_up, rounds))
        for per_tick, limit in _PACES.items():
            ticks = 100 if quick else 5_000
            rows += _latency(measured, per_tick, ticks, (warm_up, rounds), limit)
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


def _throughput(
    folder: Path,
    measured: list[Measured],
    size: str,
    value_bytes: int,
    count: int,
    rounds: tuple[int, int],
) -> list[Row]:
    produced: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    gigabytes = count * value_bytes / 1e9
    for number in range(sum(rounds)):
        for position, each in enumerate(measured):
            pair, cluster = each.pair, each.cluster
            topic = f"produced-{position}-{value_bytes}-{number}"
            pair.create_topic(topic)
            free_pages(folder, 3 * count * value_bytes)
            cluster.wait_until_quiet()
            cpu_before_s = cluster.cpu_s
            elapsed_s = pair.client.produce(cluster.bootstrap, topic, bytes(value_bytes), count)
            cluster.wait_until_quiet()
            if number >= rounds[0]:
                produced[pair.name].append(count / elapsed_s)
                costs[pair.name].append((cluster.cpu_s - cpu_before_s) / gigabytes)
    question = f"three replicas, {size}"
    rows = _compared(f"{question}, produced", produced, "messages/s", ("≥", 1.0))
    limit = _CPU_LIMIT if value_bytes == 1000 else None
    return rows + _compared(f"{question}, CPU of all brokers", costs, "CPU-s/GB", limit)


def _latency(
    measured: list[Measured],
    per_tick: int,
    ticks: int,
    rounds: tuple[int, int],
    limit: tuple[str, float] | None,
) -> list[Row]:
    times_ns: dict[str, list[int]] = defaultdict(list)
    cores: dict[str, list[float]] = defaultdict(list)
    paces: dict[str, list[float]] = defaultdict(list)
    for number in range(sum(rounds)):
        for position, each in enumerate(measured):
            each.cluster.wait_until_quiet()
            topic = f"paced-{position}-{per_tick}-{number}"
            found = paced.measure(each.pair, topic, ticks, per_tick)
            if number >= rounds[0]:
                times_ns[each.pair.name] += found.latencies_ns
                cores[each.pair.name].append(found.core_share * 100)
                paces[each.pair.name].append(found.per_s)
    question = f"three replicas, {per_tick * 1000:,} of 1 kB a second"
    rows = []
    for share in _PERCENTILES:
        milliseconds = {name: [percentile(of, share) / 1e6] for name, of in times_ns.items()}
        name = f"{question}, p{share * 100:g}"
        rows += _compared(name, milliseconds, "ms", limit if share == 0.99 else None)
    rows += [
        Row(f"{question}, pace that was kept", name, median(values), "messages/s")
        for name, values in paces.items()
    ]
    cpu_limit = _CPU_LIMIT if limit else None
    return rows + _compared(f"{question}, CPU of all brokers", cores, "% of a core", cpu_limit)


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
    rows = [Row(question, name, value, unit) for name, value in medians.items()]
    limits = {
        (PENSTOCK_OS, CONFLUENT): limit,
        (CONFLUENT_OS, CONFLUENT): limit,
        (PENSTOCK_FSYNC, CONFLUENT): None,
        (CONFLUENT_FSYNC, CONFLUENT): None,
    }
    return rows + budgets.ratios(question, medians, limits)
