"""Redis Streams as a peer: a `redis-server` on loopback with its append-only file, driven through
its own Python client with the parser in C (`redis[hiredis]`).

Not needed by the product. Invariant: the settings are the server's defaults and `appendonly yes`,
without which a stream is in memory alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import redis

from benchmarks.pace import TICK_S
from benchmarks.servers import PeerMissing, Server, free_port
from benchmarks.sharing import BATCH, LULL_S, Gate, Taken, Work

_START_S_MAX: Final = 30.0
_FIELD: Final = b"v"
_PIPELINED: Final = 1_000
_BLOCK_MS: Final = 5_000


def program() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise PeerMissing("Redis is not here: put `redis-server` on the PATH.")
    return found


def start(folder: Path) -> Server:
    folder.mkdir()
    port = free_port()
    command = [program(), "--appendonly", "yes", "--bind", "127.0.0.1", "--port", str(port)]
    with (folder / "server.out").open("ab") as output:
        process = subprocess.Popen(
            [*command, "--dir", str(folder), "--save", ""],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = Server(process, ("127.0.0.1", port))
    deadline = time.monotonic() + _START_S_MAX
    while True:
        try:
            with _connect(server.bootstrap) as connection:
                connection.ping()
            return server
        except redis.ConnectionError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise PeerMissing("Redis ended while it started, or did not answer.") from None
            time.sleep(0.01)


def create_topic(server: Server, topic: str) -> None:
    """The group that `latencies_ns` reads in; it makes the stream."""
    with _connect(server.bootstrap) as connection:
        connection.xgroup_create(topic, "handlers", id="0", mkstream=True)


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> float:
    with _connect(bootstrap) as connection:
        start_s = time.perf_counter()
        for sent in range(0, count, _PIPELINED):
            pipeline = connection.pipeline(transaction=False)
            for _ in range(min(_PIPELINED, count - sent)):
                pipeline.xadd(topic, {_FIELD: value})
            pipeline.execute()
        return time.perf_counter() - start_s


def share(bootstrap: str, topic: str, group: str, work: Work, gate: Gate) -> Taken:
    """XREADGROUP, and XACK of all that it brought in one call."""
    member = str(os.getpid())
    with _connect(bootstrap) as connection:
        try:
            connection.xgroup_create(topic, group, id="0")
        except redis.ResponseError as error:
            if "BUSYGROUP" not in str(error):  # another member has made it
                raise
        gate()
        taken = Taken()
        while not taken.is_over:
            messages = _read(
                connection, topic, group, member, work.batch, block_ms=int(LULL_S * 1000)
            )
            if messages:
                size_bytes = sum(work.on(fields[_FIELD]) for _, fields in messages)
                connection.xack(topic, group, *(name for name, _ in messages))
                taken.batch(len(messages), size_bytes)
                taken.confirmed()  # XACK has an answer
        return taken


def send_paced(
    bootstrap: str,
    topic: str,
    value_bytes: int,
    ticks: int,
    per_tick: int,
    wait_for_consumer: Callable[[], None],
) -> None:
    filling = bytes(value_bytes - 8)
    with _connect(bootstrap) as connection:
        connection.xadd(topic, {_FIELD: bytes(value_bytes)})
        wait_for_consumer()
        next_s = time.monotonic()
        for _ in range(ticks):
            pipeline = connection.pipeline(transaction=False)
            for _ in range(per_tick):
                value = time.monotonic_ns().to_bytes(8, "big") + filling
                pipeline.xadd(topic, {_FIELD: value})
            pipeline.execute()
            next_s += TICK_S
            time.sleep(max(0.0, next_s - time.monotonic()))


def latencies_ns(
    bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
) -> list[int]:
    """XREADGROUP with BLOCK, each message acknowledged after it was looked at."""
    times: list[int] = []
    with _connect(bootstrap) as connection:
        while len(times) < count:
            messages = _read(connection, topic, "handlers", "one", BATCH, block_ms=_BLOCK_MS)
            for _, fields in messages:
                sent_ns = int.from_bytes(fields[_FIELD][:8], "big")
                if sent_ns:
                    times.append(time.monotonic_ns() - sent_ns)
                else:
                    say_ready()
            if messages:
                connection.xack(topic, "handlers", *(name for name, _ in messages))
    return times


def _read(
    connection: redis.Redis, topic: str, group: str, member: str, count: int, *, block_ms: int
) -> list[tuple[bytes, dict[bytes, bytes]]]:
    answer = cast(
        list[Any], connection.xreadgroup(group, member, {topic: ">"}, count=count, block=block_ms)
    )
    return answer[0][1] if answer else []


def _connect(bootstrap: str) -> redis.Redis:
    host, port = bootstrap.split(":")
    return redis.Redis(host=host, port=int(port), protocol=2)
