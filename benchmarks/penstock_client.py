"""Our client, doing what `librdkafka.py` does with the other one.

Not tuned: the settings are the client's defaults, except the linger where the question asks for
one. Invariant: a message counts as produced when its delivery has been confirmed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

import penstock
from benchmarks.pace import LINGER_MS, PROBE_S, TICK_S

Result = TypeVar("Result")


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> float:
    async def run() -> float:
        async with penstock.connect(bootstrap) as queue, queue.producer() as producer:
            start_s = time.perf_counter()
            send = producer.send
            for _ in range(count):
                await send(topic, value)
            await producer.flush()
            return time.perf_counter() - start_s

    return _run(run())


def produce_in_turn(bootstrap: str, topic: str, partitions: int, value: bytes, count: int) -> float:
    """Seconds until so many messages are confirmed, of which each goes to the next partition."""

    async def run() -> float:
        async with penstock.connect(bootstrap) as queue, queue.producer() as producer:
            start_s = time.perf_counter()
            send = producer.send
            for number in range(count):
                await send(topic, value, partition=number % partitions)
            await producer.flush()
            return time.perf_counter() - start_s

    return _run(run())


def consume(bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
    async def run() -> float:
        start_s = time.perf_counter()
        seen = seen_bytes = 0
        async with (
            penstock.connect(bootstrap) as queue,
            queue.consumer(topic, start="earliest") as consumer,
        ):
            async for messages in consumer.batches():
                seen += len(messages)
                seen_bytes += sum(len(message.value or b"") for message in messages)
                if seen >= count:
                    break
            assert (seen, seen_bytes) == (count, count * value_bytes)
            return time.perf_counter() - start_s

    return _run(run())


def send_paced(
    bootstrap: str,
    topic: str,
    value_bytes: int,
    ticks: int,
    per_tick: int,
    wait_for_consumer: Callable[[], None],
) -> None:
    async def run() -> None:
        filling = bytes(value_bytes - 8)
        async with (
            penstock.connect(bootstrap) as queue,
            queue.producer(linger_ms=LINGER_MS) as producer,
        ):
            await producer.send(topic, bytes(value_bytes))
            await producer.flush()
            wait_for_consumer()
            next_s = time.monotonic()
            for _ in range(ticks):
                for _ in range(per_tick):
                    value = time.monotonic_ns().to_bytes(8, "big") + filling
                    await producer.send(topic, value)
                next_s += TICK_S
                await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            await producer.flush()

    _run(run())


def latencies_ns(
    bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
) -> list[int]:
    async def run() -> list[int]:
        times: list[int] = []
        async with (
            penstock.connect(bootstrap) as queue,
            queue.consumer(topic, start="earliest") as consumer,
        ):
            async for message in consumer:
                assert message.value is not None
                sent_ns = int.from_bytes(message.value[:8], "big")
                if not sent_ns:
                    say_ready()
                    continue
                times.append(time.monotonic_ns() - sent_ns)
                if len(times) == count:
                    break
        return times

    return _run(run())


def keep_sending(bootstrap: str, topic: str, tell: Callable[[int, int], None]) -> None:
    """A message each PROBE_S, until the process is ended; `tell` when each was sent, and when it
    was acknowledged."""

    async def run() -> None:
        async with (
            penstock.connect(bootstrap) as queue,
            queue.producer(linger_ms=LINGER_MS) as producer,
        ):
            while True:
                sent_ns = time.monotonic_ns()
                receipt = await producer.submit(topic, bytes(100))

                def acknowledged(receipt: asyncio.Future[Any], sent_ns: int = sent_ns) -> None:
                    receipt.result()
                    tell(sent_ns, time.monotonic_ns())

                receipt.add_done_callback(acknowledged)
                await asyncio.sleep(PROBE_S)

    _run(run())


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
