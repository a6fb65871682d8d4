"""What does a partition cost: memory and CPU of an idle broker, and small requests a second spread
over all of them, with 1, 100 and 1,000 partitions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from benchmarks import budgets, cores, servers
from benchmarks.load import Link
from benchmarks.report import Row
from benchmarks.servers import Server
from benchmarks.wire import NativeWire, record_batch

_COUNTS: Final = (1, 100, 1000)
_COUNTS_QUICK: Final = (1, 20)
# What a topic may have without the operator's leave (R-CORE-4).
_PARTITIONS_PER_TOPIC: Final = 10
_WINDOW: Final = 1000
_IDLE_MEGABYTES_MAX: Final = 100
# "Must not show in top", which prints tenths of a percent and is itself the busier one.
_IDLE_CPU_PERCENT_MAX: Final = 0.5


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:  # noqa: ARG001
    idle_s, load_s = (0.3, 0.2) if quick else (5.0, 2.0)
    rows: list[Row] = []
    for count in _COUNTS_QUICK if quick else _COUNTS:
        with servers.scratch_folder() as folder:
            rows += _measure(folder, count, idle_s, load_s)
    return sorted(rows, key=lambda row: row.question)


def places(topics: str, count: int) -> list[tuple[str, int]]:
    """The topic and number of each of `count` partitions."""
    return [
        (f"{topics}-{number // _PARTITIONS_PER_TOPIC}", number % _PARTITIONS_PER_TOPIC)
        for number in range(count)
    ]


def create(server: Server, topics: str, count: int, durability: str) -> None:
    """The topics that `places` names."""
    for first in range(0, count, _PARTITIONS_PER_TOPIC):
        partitions = min(_PARTITIONS_PER_TOPIC, count - first)
        name = f"{topics}-{first // _PARTITIONS_PER_TOPIC}"
        servers.create_topic(server, name, partitions, durability)


def _measure(folder: Path, count: int, idle_s: float, load_s: float) -> list[Row]:
    subject = f"{count:,} partition{'s' if count > 1 else ''}"
    with servers.start_penstock(folder / "penstock") as server:
        create(server, "os", count, "os")
        time.sleep(idle_s / 5)  # what creation left to do is not idleness
        cpu_before_s = server.cpu_s
        time.sleep(idle_s)
        cpu_percent = (server.cpu_s - cpu_before_s) / idle_s * 100
        megabytes = server.resident_bytes / 1e6
        rate = _spread(server, "os", count, load_s)
        loaded_megabytes = server.resident_bytes / 1e6
        create(server, "fsync", count, "fsync")
        flushed_rate = _spread(server, "fsync", count, load_s)
    return [
        budgets.at_most("idle memory", subject, megabytes, "MB", _IDLE_MEGABYTES_MAX),
        budgets.at_most("idle CPU", subject, cpu_percent, "% of a core", _IDLE_CPU_PERCENT_MAX),
        Row("memory after the load", subject, loaded_megabytes, "MB"),
        Row("produce spread over partitions, os", subject, rate, "requests/s"),
        Row("produce spread over partitions, fsync", subject, flushed_rate, "requests/s"),
    ]


def _spread(server: Server, topics: str, count: int, seconds: float) -> float:
    """Requests a second, each to the next partition."""
    wire = NativeWire()
    batch = record_batch(100, 1)
    where = places(topics, count)
    requests = [wire.produce(*where[number % count], batch, number) for number in range(_WINDOW)]
    half = _WINDOW // 2
    blocks = [b"".join(requests[:half]), b"".join(requests[half:])]
    with Link(server.address, wire) as link:
        # Once unmeasured: the first write to each partition opens its file.
        link.pipeline(blocks, requests_per_block=half, blocks_in_flight=2, blocks_max=2)
    cores.leave_to_load(server.pid)
    with cores.load(), Link(server.address, wire) as link:
        done = link.pipeline(
            blocks, requests_per_block=half, blocks_in_flight=2, seconds_max=seconds
        )
    return done.per_s
