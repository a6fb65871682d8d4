"""Our client in the three ways that `delivery` measures: sharing a topic, pushed to, and with
handlers; doing what `nats_peer` and `redis_peer` do with theirs.

Not tuned: the settings are the client's defaults, except the messages that are asked for at once,
which are everybody's. Invariant: every message is acknowledged.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

import penstock
from benchmarks import penstock_client
from benchmarks.pace import TICK_S
from benchmarks.sharing import BATCH, LULL_S, Gate, Taken, Work
from penstock import Message

Result = TypeVar("Result")
produce = penstock_client.produce


def share(bootstrap: str, topic: str, group: str, work: Work, gate: Gate) -> Taken:
    async def run() -> Taken:
        async with (
            penstock.connect(bootstrap) as queue,
            queue.share(topic, group=group, prefetch=work.batch) as consumer,
        ):
            gate()
            taken = Taken()
            while not taken.is_over:
                messages = await consumer.fetch(timeout_s=LULL_S)
                if not messages and taken.is_to_be_confirmed:
                    await consumer.commit()
                    taken.confirmed()
                    continue
                size_bytes = 0
                for message in messages:
                    size_bytes += work.on(message.value)
                    await message.ack()
                if messages:
                    taken.batch(len(messages), size_bytes)
            return taken

    return _run(run())


class Pushed:
    """One `async for`, pushed to."""

    def send_paced(
        self,
        bootstrap: str,
        topic: str,
        value_bytes: int,
        ticks: int,
        per_tick: int,
        wait_for_consumer: Callable[[], None],
    ) -> None:
        _run(_publish(bootstrap, topic, value_bytes, ticks, per_tick, wait_for_consumer))

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        async def run() -> list[int]:
            times = _Times(say_ready)
            async with (
                penstock.connect(bootstrap) as queue,
                queue.subscribe(topic, group=f"handlers-{topic}", push=True) as consumer,
            ):
                async for message in consumer:
                    times.note(message)
                    await message.ack()
                    if len(times.found) == count:
                        break
            return times.found

        return _run(run())


class Served(Pushed):
    """Handlers, eight at a time."""

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        async def run() -> list[int]:
            times = _Times(say_ready)
            done = asyncio.Event()

            async def handler(message: Message) -> None:
                times.note(message)
                if len(times.found) == count:
                    done.set()

            async with penstock.connect(bootstrap) as queue, asyncio.TaskGroup() as tasks:
                serving = tasks.create_task(queue.serve(handler, topic, group=f"handlers-{topic}"))
                await done.wait()
                serving.cancel()
            return times.found

        return _run(run())


class Leased(Pushed):
    """A shared group of one member, by long polling."""

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        async def run() -> list[int]:
            times = _Times(say_ready)
            async with (
                penstock.connect(bootstrap) as queue,
                queue.share(topic, group=f"handlers-{topic}", prefetch=BATCH) as consumer,
            ):
                async for message in consumer:
                    times.note(message)
                    await message.ack()
                    if len(times.found) == count:
                        break
            return times.found

        return _run(run())


class _Times:
    """From sent to here; ready when the message with zeros is there, which does not count."""

    def __init__(self, say_ready: Callable[[], None]) -> None:
        self.found: list[int] = []
        self._say_ready = say_ready

    def note(self, message: Message) -> None:
        assert message.value is not None
        sent_ns = int.from_bytes(message.value[:8], "big")
        if sent_ns:
            self.found.append(time.monotonic_ns() - sent_ns)
        else:
            self._say_ready()


async def _publish(
    bootstrap: str,
    topic: str,
    value_bytes: int,
    ticks: int,
    per_tick: int,
    wait_for_consumer: Callable[[], None],
) -> None:
    """So many messages each millisecond, which wait for no other."""
    filling = bytes(value_bytes - 8)
    async with penstock.connect(bootstrap) as queue, queue.producer(linger_ms=0) as producer:
        await producer.send(topic, bytes(value_bytes))
        await producer.flush()
        wait_for_consumer()
        next_s = time.monotonic()
        for _ in range(ticks):
            for _ in range(per_tick):
                await producer.send(topic, time.monotonic_ns().to_bytes(8, "big") + filling)
            next_s += TICK_S
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
        await producer.flush()


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
