"""What does another replica cost, and what another partition? On three brokers, acks=all, `os`.

Replicas: a topic of one partition with one, two and three of them; requests of one message of 100
bytes with a thousand in flight, and batches of 100 kB; the CPU time of the leader, and that of the
others together. Partitions: our client puts 100 B messages on 1 to 1,000 of them in turn, three
replicas each; with more partitions the same messages are in more and smaller batches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import penstock_client, servers
from benchmarks.clusters import BROKERS, PenstockCluster
from benchmarks.freed_pages import free_pages
from benchmarks.load import Link
from benchmarks.report import Row
from benchmarks.wire import NativeWire, record_batch

_ACKS_ALL: Final = -1
_REPLICAS: Final = range(1, BROKERS + 1)
_PARTITIONS: Final = (1, 10, 100, 1000)
_PARTITIONS_QUICK: Final = (1, 10)
_MESSAGES: Final = 300_000
_MESSAGES_QUICK: Final = 3_000
_VALUE_BYTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests of one kind, and how many of them."""

    name: str
    batch: bytes
    in_flight: int
    count: int
    unit: str
    """Of its cost, and how many CPU-seconds of all requests that is."""
    unit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one request of the load took."""

    per_s: float
    leader: float
    others: float


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:  # noqa: ARG001
    rounds = 1 if quick else 3
    with (
        servers.scratch_folder() as folder,
        PenstockCluster(folder / "penstock", partitions_per_topic_max=max(_PARTITIONS)) as cluster,
    ):
        rows = _replica_rows(folder, cluster, _loads(quick=quick), rounds)
        counts = _PARTITIONS_QUICK if quick else _PARTITIONS
        messages = _MESSAGES_QUICK if quick else _MESSAGES
        return rows + _partition_rows(cluster, counts, messages, rounds)


def _loads(*, quick: bool) -> list[Load]:
    small, large = record_batch(100, 1), record_batch(1000, 99)
    small_count, large_count = (2_000, 40) if quick else (60_000, 2_000)
    return [
        Load(
            name="requests of one message",
            batch=small,
            in_flight=1000,
            count=small_count,
            unit="µs/request",
            unit_s=small_count / 1e6,
        ),
        Load(
            name="batches of 100 kB",
            batch=large,
            in_flight=8,
            count=large_count,
            unit="CPU-s/GB",
            unit_s=large_count * len(large) / 1e9,
        ),
    ]


# --- replicas ------------------------------------------------------------------------------------


def _replica_rows(
    folder: Path, cluster: PenstockCluster, loads: Sequence[Load], rounds: int
) -> list[Row]:
    found: dict[tuple[str, int], list[Cost]] = defaultdict(list)
    for number in range(rounds + 1):
        for load in loads:
            for replicas in _REPLICAS:
                topic = f"replicas-{replicas}-{load.in_flight}-{number}"
                cluster.create_topic(topic, replicas=replicas)
                free_pages(folder, replicas * load.count * len(load.batch))
                cost = _put(cluster, topic, load)
                if number:  # the first round is for the memory and the files
                    found[load.name, replicas].append(cost)
    rows = []
    for load in loads:
        costs = {replicas: found[load.name, replicas] for replicas in _REPLICAS}
        rows += _costs(load, costs)
    return rows


def _costs(load: Load, costs: dict[int, list[Cost]]) -> list[Row]:
    question = f"cost of a replica, {load.name}"
    rows, totals = [], {}
    for replicas, of in costs.items():
        subject = f"{replicas} replica{'s' if replicas > 1 else ''}"
        leader, others = median(cost.leader for cost in of), median(cost.others for cost in of)
        totals[replicas] = leader + others
        note = f"the leader {leader:.3g}, the others {others:.3g}"
        rows += [
            Row(f"{question}, rate", subject, median(cost.per_s for cost in of), "requests/s"),
            Row(f"{question}, CPU of all brokers", subject, totals[replicas], load.unit, note),
        ]
    for replicas in list(costs)[1:]:
        added = totals[replicas] - totals[replicas - 1]
        name = f"{replicas} replicas, more than {replicas - 1}"
        rows.append(Row(f"{question}, CPU of all brokers", name, added, load.unit))
    return sorted(rows, key=lambda row: row.question, reverse=True)


def _put(cluster: PenstockCluster, topic: str, load: Load) -> Cost:
    wire = NativeWire(acks=_ACKS_ALL)
    leader = cluster.brokers[cluster.led(topic)[0].leader]
    half = load.in_flight // 2
    requests = [wire.produce(topic, 0, load.batch, number) for number in range(load.in_flight)]
    blocks = [b"".join(requests[:half]), b"".join(requests[half:])]
    cluster.wait_until_quiet()
    leader_before_s, all_before_s = leader.cpu_s, cluster.cpu_s
    with Link(leader.address, wire) as link:
        done = link.pipeline(
            blocks, requests_per_block=half, blocks_in_flight=2, blocks_max=load.count // half
        )
    cluster.wait_until_quiet()
    leader_s = leader.cpu_s - leader_before_s
    others_s = cluster.cpu_s - all_before_s - leader_s
    return Cost(
        per_s=done.per_s, leader=leader_s / load.unit_s, others=max(others_s, 0.0) / load.unit_s
    )


# --- partitions ----------------------------------------------------------------------------------


def _partition_rows(
    cluster: PenstockCluster, counts: Sequence[int], messages: int, rounds: int
) -> list[Row]:
    rows = []
    question = "cost of a partition, 100 B by our client"
    for count in counts:
        rates, costs = [], []
        topic = f"partitions-{count}"
        cluster.create_topic(topic, partitions=count)
        for number in range(rounds + 1):
            cluster.wait_until_quiet()
            before_s = cluster.cpu_s
            elapsed_s = penstock_client.produce_in_turn(
                cluster.bootstrap, topic, count, bytes(_VALUE_BYTES), messages
            )
            cluster.wait_until_quiet()
            if number:  # the first time every partition opens its file
                rates.append(messages / elapsed_s)
                costs.append((cluster.cpu_s - before_s) / messages * 1e6)
        subject = f"{count:,} partition{'s' if count > 1 else ''}"
        gigabyte_s = median(costs) / _VALUE_BYTES * 1e3
        note = f"{gigabyte_s:.3g} CPU-s/GB"
        rows += [
            Row(f"{question}, produced", subject, median(rates), "messages/s"),
            Row(f"{question}, CPU of all brokers", subject, median(costs), "µs/message", note),
        ]
    return sorted(rows, key=lambda row: row.question, reverse=True)
