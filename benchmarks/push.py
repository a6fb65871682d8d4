"""How long from the call that publishes a message until its handler has it, and how many messages a
second one consumer takes: pushed, beside long polling, and through `serve` with its handlers.

A message each millisecond, so that each is on its own; how it is measured is in `paced`. For the
rate a topic is read from its start. Same broker, same messages; only the way of reading differs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from statistics import median
from typing import Any, Final, TypeVar

import uvloop

import penstock
from benchmarks import budgets, paced, penstock_client, servers
from benchmarks.load import percentile
from benchmarks.pace import TICK_S
from benchmarks.pairs import Pair
from benchmarks.report import Row
from penstock import Message

_QUESTION: Final = "publish to handler, 1,000 of 1 kB a second"
_RATE: Final = "messages to one consumer, 1 kB"
_VALUE_BYTES: Final = 1000
Result = TypeVar("Result")
_WARM_UP_ROUNDS: Final = 2
PULL: Final = "long polling"
PUSH: Final = "push"
SERVE: Final = "push, serve with 8 handlers"


class _Pull:
    """Our client as it is by default."""

    produce = staticmethod(penstock_client.produce)

    def send_paced(
        self,
        bootstrap: str,
        topic: str,
        value_bytes: int,
        ticks: int,
        per_tick: int,
        wait_for_consumer: Callable[[], None],
    ) -> None:
        assert per_tick == 1
        _run(_publish(bootstrap, topic, value_bytes, ticks, wait_for_consumer))

    def consume(self, bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
        return _run(_read(bootstrap, topic, value_bytes, count, push=False))

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        return _run(_latencies(bootstrap, topic, count, say_ready, push=False))


class _Push(_Pull):
    """The same loop, pushed to."""

    def consume(self, bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
        return _run(_read(bootstrap, topic, value_bytes, count, push=True))

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        return _run(_latencies(bootstrap, topic, count, say_ready, push=True))


class _Serve(_Pull):
    """A handler for each message, acknowledged."""

    def consume(self, bootstrap: str, topic: str, value_bytes: int, count: int) -> float:
        seen_bytes = 0

        def look(message: Message) -> int:
            nonlocal seen_bytes
            seen_bytes += len(message.value or b"")
            return 1

        start_s = time.perf_counter()
        _run(_serve(bootstrap, topic, count, look))
        assert seen_bytes == count * value_bytes
        return time.perf_counter() - start_s

    def latencies_ns(
        self, bootstrap: str, topic: str, count: int, say_ready: Callable[[], None]
    ) -> list[int]:
        times: list[int] = []

        def note(message: Message) -> int:
            assert message.value is not None
            sent_ns = int.from_bytes(message.value[:8], "big")
            if not sent_ns:
                say_ready()
                return 0
            times.append(time.monotonic_ns() - sent_ns)
            return 1

        _run(_serve(bootstrap, topic, count, note))
        return times


_WAYS: Final = {PULL: _Pull(), PUSH: _Push(), SERVE: _Serve()}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:
    del peers
    rounds, ticks, count = (1, 100, 5_000) if quick else (3, 3_000, 300_000)
    times_ns: dict[str, list[int]] = defaultdict(list)
    rates: dict[str, list[float]] = defaultdict(list)
    with servers.scratch_folder() as folder, servers.start_penstock(folder / "penstock") as server:
        pairs = [
            Pair(
                name=name,
                client=client,
                server=server,
                create_topic=lambda topic: servers.create_topic(server, topic, 1, "os"),
            )
            for name, client in _WAYS.items()
        ]
        servers.create_topic(server, "rate", 1, "os")
        penstock_client.produce(server.bootstrap, "rate", bytes(_VALUE_BYTES), count)
        for number in range(_WARM_UP_ROUNDS + rounds):
            for position, pair in enumerate(pairs):
                found = paced.measure(pair, f"push-{position}-{number}", ticks, 1)
                took_s = pair.client.consume(server.bootstrap, "rate", _VALUE_BYTES, count)
                if number >= _WARM_UP_ROUNDS:
                    times_ns[pair.name] += found.latencies_ns
                    rates[pair.name].append(count / took_s)
    rows: list[Row] = []
    for share in (0.5, 0.99):
        question = f"{_QUESTION}, p{share * 100:g}"
        values = {name: percentile(times, share) / 1e6 for name, times in times_ns.items()}
        rows += [Row(question, name, value, "ms") for name, value in values.items()]
        rows += budgets.ratios(question, values, {(PUSH, PULL): None})
    per_s = {name: median(found) for name, found in rates.items()}
    rows += [Row(_RATE, name, value, "messages/s") for name, value in per_s.items()]
    return rows + budgets.ratios(_RATE, per_s, {(PUSH, PULL): None})


async def _publish(
    bootstrap: str, topic: str, value_bytes: int, ticks: int, wait_for_consumer: Callable[[], None]
) -> None:
    """A message each millisecond, which waits for no other."""
    filling = bytes(value_bytes - 8)
    async with (
        penstock.connect(bootstrap) as queue,
        queue.producer(linger_ms=0) as producer,
    ):
        await producer.send(topic, bytes(value_bytes))
        await producer.flush()
        wait_for_consumer()
        next_s = time.monotonic()
        for _ in range(ticks):
            await producer.send(topic, time.monotonic_ns().to_bytes(8, "big") + filling)
            next_s += TICK_S
            await asyncio.sleep(max(0.0, next_s - time.monotonic()))
        await producer.flush()


async def _read(bootstrap: str, topic: str, value_bytes: int, count: int, *, push: bool) -> float:
    start_s = time.perf_counter()
    seen = seen_bytes = 0
    async with (
        penstock.connect(bootstrap) as queue,
        queue.consumer(topic, start="earliest", push=push) as consumer,
    ):
        async for messages in consumer.batches():
            seen += len(messages)
            seen_bytes += sum(len(message.value or b"") for message in messages)
            if seen >= count:
                break
    assert (seen, seen_bytes) == (count, count * value_bytes)
    return time.perf_counter() - start_s


async def _latencies(
    bootstrap: str, topic: str, count: int, say_ready: Callable[[], None], *, push: bool
) -> list[int]:
    times: list[int] = []
    async with (
        penstock.connect(bootstrap) as queue,
        queue.consumer(topic, start="earliest", push=push) as consumer,
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


async def _serve(bootstrap: str, topic: str, count: int, handle: Callable[[Message], int]) -> None:
    """Until so many messages were handled that count."""
    handled = 0
    done = asyncio.Event()

    async def handler(message: Message) -> None:
        nonlocal handled
        handled += handle(message)
        if handled == count:
            done.set()

    async with penstock.connect(bootstrap) as queue:
        # A group that nobody had before: it begins at the start.
        group = f"serve-{topic}-{time.monotonic_ns()}"
        serving = asyncio.create_task(queue.serve(handler, topic, group=group))
        await asyncio.wait(
            [serving, asyncio.ensure_future(done.wait())], return_when=asyncio.FIRST_COMPLETED
        )
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
