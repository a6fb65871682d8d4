"""Delayed messages (R-DEL-13): how many a second go in and come out, how late they are, and how
much memory the broker needs for those that wait.

One real broker, the public client in this process. "Out" is everything due at about the same time,
as after a downtime; messages of scattered times have to be read one by one. Lateness is from the
time a message is due until the consumer has it, with nothing else to do. With a number, as in
`python -m benchmarks.delayed 10000000`, only what so many that wait cost is measured: the broker's
memory on the way there, the disk, how long it takes to start with them after SIGKILL and after an
orderly stop, and how late a message is then.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import penstock
from benchmarks import budgets, report, servers
from benchmarks.report import Row
from benchmarks.servers import Server
from penstock.client.admin.delayed import DelayedMessage
from penstock.client.client import Client

_QUESTION: Final = "delayed messages"
_VALUE: Final = b"v" * 100
_CALL: Final = 20_000
_LATE_MS_MAX: Final = 50.0
_MEMORY_MB_MAX: Final = 64.0
_MEMORY_EVERY: Final = 1_000_000
_YEAR_S: Final = 366 * 86_400


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:  # noqa: ARG001
    """Nobody beside has them on disk in one process that could be started here."""
    count, probes = (20_000, 20) if quick else (300_000, 300)
    return [*_memory(count), *_rates(count), *_lateness(probes)]


def _memory(count: int) -> list[Row]:
    """Waiting for a year at most, each for another time."""
    with servers.scratch_folder() as folder, servers.start_penstock(folder) as server:
        return asyncio.run(_fill(server, count))


def _many(count: int) -> list[Row]:
    """The same, and what so many cost besides."""
    with servers.scratch_folder() as folder:
        with servers.start_penstock(folder) as server:
            rows = asyncio.run(_fill(server, count))
            disk_mb = sum(file.stat().st_blocks for file in folder.rglob("*")) * 512 / 1e6
            rows.append(Row(_QUESTION, f"disk for {count:,}", disk_mb, "MB"))
            server.kill()
        for how in ("SIGKILL", "an orderly stop"):
            began_s = time.perf_counter()
            with servers.start_penstock(folder) as server:
                rows += asyncio.run(_restarted(server, count, how, began_s))
        return rows


async def _fill(server: Server, count: int) -> list[Row]:
    rows = []
    async with penstock.connect(server.bootstrap) as mq:
        await mq.admin.create_topic("orders", 1)
        await mq.publish("orders", _VALUE, delay_s=_YEAR_S)
        before_mb, cpu_s, began_s = server.resident_bytes / 1e6, server.cpu_s, time.perf_counter()
        most_mb, written = before_mb, 0
        for part in _scattered(count):
            await mq.delayed.publish_many("orders", part)
            most_mb = max(most_mb, server.resident_bytes / 1e6)
            written += len(part)
            if written % _MEMORY_EVERY == 0 and written < count:
                rows.append(Row(_QUESTION, f"memory with {written:,}, at most", most_mb, "MB"))
        took_s, cpu_s = time.perf_counter() - began_s, server.cpu_s - cpu_s
        assert (await mq.delayed.describe()).pending == count + 1
    name = f"{count:,} waiting, 100 B"
    return [
        *rows,
        Row(_QUESTION, f"in, {name}", count / took_s, "messages/s"),
        Row(_QUESTION, "broker's CPU, in", cpu_s / count * 1e6, "µs/message"),
        budgets.at_most(
            _QUESTION, f"memory grown by {name}", most_mb - before_mb, "MB", _MEMORY_MB_MAX
        ),
        Row(_QUESTION, f"memory with {name}", most_mb, "MB", f"{before_mb:.0f} MB before"),
    ]


async def _restarted(server: Server, count: int, how: str, began_s: float) -> list[Row]:
    """From the start of the process until it looks after them again, and one that is due."""
    listens_s = time.perf_counter() - began_s
    async with penstock.connect(server.bootstrap) as mq:
        pending = (await mq.delayed.describe()).pending
        knows_s = time.perf_counter() - began_s
        assert pending == count + 1, f"{pending} of {count + 1} wait after {how}"
        topic, late_ms = how.replace(" ", "-"), list[float]()
        await mq.admin.create_topic(topic, 1)
        reading = asyncio.create_task(_read(mq, topic, 1, late_ms))
        await mq.publish(topic, _VALUE, delay_s=1)
        await reading
    memory_mb = server.resident_bytes / 1e6
    return [
        Row(_QUESTION, f"after {how}: listens", listens_s, "s"),
        Row(_QUESTION, f"after {how}: all {count:,} are known", knows_s, "s"),
        Row(_QUESTION, f"after {how}: late, the next one", late_ms[0], "ms"),
        Row(_QUESTION, f"after {how}: memory", memory_mb, "MB"),
    ]


def _rates(count: int) -> list[Row]:
    with servers.scratch_folder() as folder, servers.start_penstock(folder) as server:
        return [
            Row(_QUESTION, subject, asyncio.run(_deliver(server, count, spread_s)), "messages/s")
            for subject, spread_s in (("out, all for one time", 0.0), ("out, scattered times", 1.0))
        ]


async def _deliver(server: Server, count: int, spread_s: float) -> float:
    """From when the first is due. spread_s: over which they are due, less than it takes."""
    async with penstock.connect(server.bootstrap) as mq:
        topic = f"orders-{spread_s:g}"
        await mq.admin.create_topic(topic, 1)
        delivered = (await mq.delayed.describe()).delivered
        # Long enough that all of it is there before the first is due.
        due = datetime.now(UTC) + timedelta(seconds=count / 15_000 + 2)
        chance = random.Random(1)
        for first in range(0, count, _CALL):
            part = [
                DelayedMessage(
                    _VALUE, deliver_at=due + timedelta(seconds=chance.random() * spread_s)
                )
                for _ in range(min(_CALL, count - first))
            ]
            await mq.delayed.publish_many(topic, part)
        await asyncio.sleep(max((due - datetime.now(UTC)).total_seconds(), 0))
        began_s = time.perf_counter()
        while (await mq.delayed.describe()).delivered < delivered + count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return count / (time.perf_counter() - began_s)


def _lateness(probes: int) -> list[Row]:
    with servers.scratch_folder() as folder, servers.start_penstock(folder) as server:
        late_ms = sorted(asyncio.run(_probe(server, probes)))
    return [
        Row(_QUESTION, "late, idle, median", late_ms[len(late_ms) // 2], "ms"),
        budgets.at_most(
            _QUESTION, "late, idle, p99", late_ms[len(late_ms) * 99 // 100], "ms", _LATE_MS_MAX
        ),
    ]


async def _probe(server: Server, probes: int) -> list[float]:
    late_ms: list[float] = []
    async with penstock.connect(server.bootstrap) as mq:
        await mq.admin.create_topic("orders", 1)
        reading = asyncio.create_task(_read(mq, "orders", probes, late_ms))
        await asyncio.sleep(0.2)
        for _ in range(probes):
            await mq.publish("orders", _VALUE, delay_s=0.1)
            await asyncio.sleep(0.01)
        await reading
    return late_ms


async def _read(mq: Client, topic: str, count: int, late_ms: list[float]) -> None:
    async for message in mq.subscribe(topic):
        late_ms.append(time.time() * 1000 - message.timestamp_ms)
        if len(late_ms) == count:
            return


def _scattered(count: int) -> Iterator[list[DelayedMessage]]:
    chance = random.Random(1)
    for first in range(0, count, _CALL):
        yield [
            DelayedMessage(_VALUE, delay_s=3600 + chance.random() * _YEAR_S)
            for _ in range(min(_CALL, count - first))
        ]


if __name__ == "__main__":
    report.show(_many(int(sys.argv[1])))
