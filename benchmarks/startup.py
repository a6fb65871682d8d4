"""How long from the start of the process until it listens: empty, with 1,000 partitions of 1 GB in
all after an orderly stop, and after SIGKILL. The files are in the page cache, as they are when a
broker is restarted on a running machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks import budgets, partitions, servers
from benchmarks.load import Link
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.wire import NativeWire, record_batch

_EMPTY_S_MAX: Final = 0.5
_CLEAN_S_MAX: Final = 1.0
_QUESTION: Final = "start-up"
_MEMORY: Final = "idle memory"
_TENTH: Final = {("empty", "Kafka"): ("≤", 0.1)}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    repeats, count, records = (1, 20, 9) if quick else (5, 1000, 990)
    with servers.scratch_folder() as folder:
        empty_s, empty_mb = _empty(folder, repeats)
        rows = [budgets.at_most(_QUESTION, "empty", empty_s, "s", _EMPTY_S_MAX)]
        rows += _full(folder / "full", count, records)
        if peers:
            rows += _kafka(folder, repeats, empty_s, empty_mb)
    return rows


def _empty(folder: Path, repeats: int) -> tuple[float, float]:
    """Seconds, and megabytes of memory."""
    times = []
    for number in range(repeats):
        elapsed_s, server = _timed(servers.start_penstock, folder / f"empty-{number}")
        with server:
            times.append(elapsed_s)
            megabytes = server.resident_bytes / 1e6
    return median(times), megabytes


def _full(data: Path, count: int, records: int) -> list[Row]:
    """Fill, stop, start; append to every partition, kill, start."""
    batch = record_batch(1000, records)
    total = f"{count:,} partitions, {count * len(batch) / 1e9:.2g} GB"
    with servers.start_penstock(data) as server:
        partitions.create(server, "topic", count, "os")
        _append_everywhere(server, count, batch)
    clean_s, server = _timed(servers.start_penstock, data)
    with server:
        _append_everywhere(server, count, record_batch(1000, 1))
        server.kill()
    killed_s, server = _timed(servers.start_penstock, data)
    with server:
        _append_everywhere(server, count, record_batch(1000, 1))  # it is really back
    return [
        budgets.at_most(_QUESTION, f"{total}, after an orderly stop", clean_s, "s", _CLEAN_S_MAX),
        Row(_QUESTION, f"{total}, after SIGKILL", killed_s, "s", "every segment is unsealed"),
    ]


def _kafka(folder: Path, repeats: int, empty_s: float, empty_mb: float) -> list[Row]:
    # Only here, because it asks for packages and programs that only the peers need.
    from benchmarks import kafka_peer

    times = []
    for number in range(min(repeats, 3)):
        settings = kafka_peer.prepare(folder / f"kafka-{number}")
        elapsed_s, server = _timed(kafka_peer.start_kafka, settings)
        with server:
            times.append(elapsed_s)
            megabytes = server.resident_bytes / 1e6
    kafka_s = median(times)
    return [
        Row(_QUESTION, "Kafka, empty", kafka_s, "s", "until it answers"),
        Row(_MEMORY, "Kafka, empty", megabytes, "MB", "with a heap of 1 GB"),
        Row(_MEMORY, "Penstock, empty", empty_mb, "MB"),
        *budgets.ratios(_QUESTION, {"empty": empty_s, "Kafka": kafka_s}, _TENTH),
        *budgets.ratios(_MEMORY, {"empty": empty_mb, "Kafka": megabytes}, _TENTH),
    ]


def _timed(start: Callable[[Path], Server], where: Path) -> tuple[float, Server]:
    before_s = time.perf_counter()
    server = start(where)
    return time.perf_counter() - before_s, server


def _append_everywhere(server: Server, count: int, batch: bytes) -> None:
    wire = NativeWire()
    with Link(server.address, wire) as link:
        for topic, partition in partitions.places("topic", count):
            link.call(wire.produce(topic, partition, batch, 1))
