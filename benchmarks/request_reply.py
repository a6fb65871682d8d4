"""How long does a request take until its reply is there, one after the other and many at once;
beside the publishing of a message alone, which is part of it.

Three processes: the broker, who asks (this one), and who replies (`python -m
benchmarks.request_reply ADDRESS TOPIC`). The request is a message in a topic, as durable as that
is; the reply goes from connection to connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import uvloop

import penstock
from benchmarks.load import percentile
from benchmarks.report import Row
from benchmarks.servers import Server, create_topic, launch, scratch_folder, start_penstock

_VALUE: Final = bytes(100)
_WARM_UP: Final = 100
_AT_ONCE: Final = 64
_READY: Final = b"ready\n"


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    del peers  # Kafka has no such thing
    count = 300 if quick else 5_000
    rows: list[Row] = []
    with scratch_folder() as folder, start_penstock(folder) as server:
        for durability in ("os", "fsync"):
            topic = f"asked-{durability}"
            create_topic(server, topic, 1, durability)
            with _replying(server, topic):
                rows += uvloop.run(_measure(server.bootstrap, topic, durability, count))
    return sorted(rows, key=lambda row: row.question)


async def _measure(bootstrap: str, topic: str, durability: str, count: int) -> list[Row]:
    rows = []
    async with penstock.connect(bootstrap) as mq:

        async def request() -> None:
            await mq.request(topic, _VALUE, timeout=30)

        async def publish() -> None:
            await mq.publish(f"{topic}-alone", _VALUE)

        await mq.admin.create_topic(f"{topic}-alone", 1, {"durability": durability})
        for name, act in (("request and reply", request), ("publish alone", publish)):
            await _times_us(act, _WARM_UP)
            times_us = await _times_us(act, count)
            subject = f"{name}, {durability}"
            for share in (0.5, 0.99):
                question = f"request, one at a time, p{share * 100:g}"
                rows.append(Row(question, subject, percentile(times_us, share), "µs"))
            rate = await _rate(act, count * 2)
            rows.append(Row(f"request, {_AT_ONCE} at once", subject, rate, "1/s"))
    return rows


async def _times_us(act: Callable[[], Awaitable[None]], count: int) -> list[float]:
    times = []
    for _ in range(count):
        start_ns = time.perf_counter_ns()
        await act()
        times.append((time.perf_counter_ns() - start_ns) / 1000)
    return times


async def _rate(act: Callable[[], Awaitable[None]], count: int) -> float:
    each = count // _AT_ONCE

    async def go_on() -> None:
        for _ in range(each):
            await act()

    start_s = time.perf_counter()
    await asyncio.gather(*(go_on() for _ in range(_AT_ONCE)))
    return each * _AT_ONCE / (time.perf_counter() - start_s)


@contextlib.contextmanager
def _replying(server: Server, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "benchmarks.request_reply", server.bootstrap, topic]
    process = launch(command, {})
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == _READY
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def _reply(bootstrap: str, topic: str) -> None:
    """To everything, several at a time."""
    async with penstock.connect(bootstrap) as mq, mq.subscribe(topic) as consumer:
        sys.stdout.buffer.write(_READY)
        sys.stdout.flush()
        async for messages in consumer.batches():
            await asyncio.gather(*(message.reply(message.value) for message in messages))


if __name__ == "__main__":
    uvloop.run(_reply(*sys.argv[1:3]))
