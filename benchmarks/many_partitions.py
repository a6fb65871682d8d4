"""What 1,000 partitions with three replicas each mean for three brokers: how long it takes to make
them, what they need when nothing happens, how long until all have a leader again when a broker is
killed, how long it takes that broker to come back; and how many heartbeats go from one to another.

Where peers are asked for, the same of a Kafka of three brokers, but the heartbeats: its followers
fetch instead.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, servers
from benchmarks.clusters import BROKERS, Cluster, Led, PenstockCluster
from benchmarks.report import Row
from benchmarks.wiretap import Wiretap
from penstock.replication.peers.replicas import TICK_MS

_TOPIC: Final = "many"
_STORM_S_MAX: Final = 120.0
_LOOK_S: Final = 0.05
_LEADERS_STAY_S: Final = 10.0
_IDLE_MEGABYTES_MAX: Final = 100
# "Must not show in top": the one heartbeat of each tick, and the meta server's, are all there is.
_IDLE_CPU_PERCENT_MAX: Final = 3.0
_PENSTOCK: Final = "Penstock"
_KAFKA: Final = "Kafka"


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    count, idle_s = (20, 1.0) if quick else (1000, 20.0)
    with servers.scratch_folder() as folder:
        rows = _penstock(folder / "penstock", count, idle_s)
        if peers:
            # Only here, because it asks for packages and programs that only the peers need.
            from benchmarks.kafka_cluster import KafkaCluster

            with KafkaCluster(folder / "kafka") as kafka:
                rows += _common(kafka, _KAFKA, count, idle_s)
    return sorted(rows, key=lambda row: row.question)


def _penstock(folder: Path, count: int, idle_s: float) -> list[Row]:
    with PenstockCluster(folder, partitions_per_topic_max=count) as cluster:
        rows = _common(cluster, _PENSTOCK, count, idle_s)
        begun_s = time.monotonic()
        cluster.stop(BROKERS)
        rows.append(Row(_question(count, "stop in order"), _PENSTOCK, _since(begun_s), "s"))
        rows += _restart(cluster, BROKERS, count, "after an orderly stop")
        return rows + _heartbeats(cluster, count, idle_s)


def _common(cluster: Cluster, name: str, count: int, idle_s: float) -> list[Row]:
    """What is asked of both."""
    begun_s = time.monotonic()
    cluster.create_topic(_TOPIC, partitions=count)
    made_s = _since(begun_s)
    cluster.wait_until_quiet()
    rows = [Row(_question(count, "made, until all are led and whole"), name, made_s, "s")]
    rows += _idle(cluster, name, count, idle_s)
    rows += _storm(cluster, name, count)
    return rows + _restart(cluster, BROKERS, count, "after SIGKILL", name)


def _idle(cluster: Cluster, name: str, count: int, idle_s: float) -> list[Row]:
    """Of the broker in the middle."""
    before_s = {key: server.cpu_s for key, server in cluster.brokers.items()}
    begun_s = time.monotonic()
    time.sleep(idle_s)
    elapsed_s = _since(begun_s)
    percents = [
        (server.cpu_s - before_s[key]) / elapsed_s * 100 for key, server in cluster.brokers.items()
    ]
    megabytes = [server.resident_bytes / 1e6 for server in cluster.brokers.values()]
    cpu, memory = _question(count, "idle CPU of a broker"), _question(count, "memory of a broker")
    note = "each: " + _listed(percents)
    if name == _KAFKA:
        return [
            Row(cpu, name, median(percents), "% of a core", note),
            Row(memory, name, median(megabytes), "MB"),
        ]
    judged = budgets.at_most(cpu, name, median(percents), "% of a core", _IDLE_CPU_PERCENT_MAX)
    return [
        replace(judged, note=note),
        budgets.at_most(memory, name, median(megabytes), "MB", _IDLE_MEGABYTES_MAX),
    ]


def _storm(cluster: Cluster, name: str, count: int) -> list[Row]:
    """Kill a broker, and look until the others know a leader of each partition."""
    led = sum(each.leader == BROKERS for each in cluster.led(_TOPIC))
    begun_s = time.monotonic()
    cluster.kill(BROKERS)
    cpu_before_s = cluster.cpu_s
    half_s = None
    while True:
        missing = max(_leaderless(cluster, survivor) for survivor in cluster.brokers)
        if half_s is None and missing <= led / 2:
            half_s = _since(begun_s)
        if not missing:
            break
        assert _since(begun_s) < _STORM_S_MAX, f"{missing} partitions have no leader"
        time.sleep(_LOOK_S)
    elapsed_s = _since(begun_s)
    assert half_s is not None
    cpu_s = cluster.cpu_s - cpu_before_s
    question = _question(count, "a broker killed")
    note = f"of {led} that it led"
    return [
        Row(f"{question}, half of its partitions are led again", name, half_s, "s", note),
        Row(f"{question}, all partitions are led again", name, elapsed_s, "s", note),
        Row(f"{question}, CPU of the others until then", name, cpu_s, "s"),
    ]


def _leaderless(cluster: Cluster, ask: int) -> int:
    """As that broker knows it; the dead one leads nothing."""
    return sum(each.leader not in cluster.brokers for each in cluster.led(_TOPIC, ask))


def _restart(
    cluster: Cluster, broker_id: int, count: int, how: str, name: str = _PENSTOCK
) -> list[Row]:
    begun_s = time.monotonic()
    cluster.start([broker_id])
    ready_s = _since(begun_s)
    cluster.wait_until_whole(_TOPIC)
    whole_s = _since(begun_s)
    cluster.wait_until_quiet()
    question = _question(count, f"start {how}")
    return [
        Row(f"{question}, until it listens", name, ready_s, "s"),
        Row(f"{question}, until it has everything", name, whole_s, "s"),
    ]


def _heartbeats(cluster: PenstockCluster, count: int, seconds: float) -> list[Row]:
    """Once more, with a relay between the brokers that counts."""
    addresses = {key: server.address for key, server in cluster.brokers.items()}
    with Wiretap(addresses) as tap:
        for broker_id in list(cluster.brokers):
            cluster.stop(broker_id)
            config = cluster.configs[broker_id]
            cluster.configs[broker_id] = replace(config, advertise=tap.addresses[broker_id])
        cluster.start(cluster.configs)
        cluster.wait_until_whole(_TOPIC)
        _wait_until_leaders_stay(cluster)
        cluster.wait_until_quiet()
        tap.clear()
        begun_s = time.monotonic()
        time.sleep(seconds)
        ticks = _since(begun_s) * 1000 / TICK_MS
        beats = [tap.heartbeats[pair] / ticks for pair in sorted(tap.heartbeats)]
        others = [
            (tap.parcels[pair] - tap.heartbeats[pair]) / ticks for pair in sorted(tap.parcels)
        ]
        assert len(beats) == BROKERS * (BROKERS - 1), f"every pair was heard: {tap.heartbeats}"
    question = _question(count, "idle, from one broker to another in a tick")
    return [
        Row(question, "heartbeats", max(beats), "messages", "each pair: " + _listed(beats)),
        Row(question, "anything else", max(others), "messages", "each pair: " + _listed(others)),
    ]


def _wait_until_leaders_stay(cluster: PenstockCluster) -> None:
    """After a restart of all they go back to the preferred brokers, some each second."""
    before: list[Led] = []
    while (led := cluster.led(_TOPIC)) != before:
        before = led
        time.sleep(_LEADERS_STAY_S)


def _question(count: int, what: str) -> str:
    return f"{count:,} partitions, {what}"


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def _since(begun_s: float) -> float:
    return time.monotonic() - begun_s
