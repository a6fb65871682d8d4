"""`penstock bench`: how fast a broker is from here, in a few seconds.

One producer and one consumer in one process, as a program has them: a rough figure for people. The
project's own benchmarks, with budgets and peers, are in `benchmarks/`.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.commands.produce import Compression
from penstock.cli.demo.broker_process import BrokerProcess
from penstock.cli.output import progress, show_json, show_table
from penstock.cli.runtime import Json, connected, run

if TYPE_CHECKING:
    from penstock.client.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class _Load:
    """What to measure with."""

    messages: int
    value_bytes: int
    partitions: int
    durability: str
    compression: Compression
    round_trips: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """What was measured."""

    produce_messages_per_s: float
    produce_mb_per_s: float
    consume_messages_per_s: float
    consume_mb_per_s: float
    round_trip_p50_ms: float
    round_trip_p99_ms: float


def bench(
    messages: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="How many to publish and consume.")
    ] = 500_000,
    size: Annotated[int, typer.Option(min=0, metavar="BYTES", help="Bytes of each value.")] = 100,
    partitions: Annotated[int, typer.Option(min=1, metavar="COUNT", help="Of the topic.")] = 1,
    durability: Annotated[
        str, typer.Option(metavar="HOW", help="fsync or os: when a message counts as stored.")
    ] = "fsync",
    compression: Annotated[
        Compression, typer.Option(metavar="NAME", help="none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    round_trips: Annotated[
        int, typer.Option(min=1, metavar="COUNT", help="Single messages to time.")
    ] = 1_000,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="A running broker to measure; without it one is started for the purpose.",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure messages per second, and the round trip of one.

    Every message counted as produced was acknowledged. The topic is deleted afterwards.

    \b
    Examples:
      penstock bench
      penstock bench --size 1000 --durability os
      penstock bench --bootstrap 127.0.0.1:9092 --partitions 4 --json
    """
    load = _Load(
        messages=messages,
        value_bytes=size,
        partitions=partitions,
        durability=durability,
        compression=compression,
        round_trips=round_trips,
    )
    figures = run(_measure_somewhere(load, bootstrap))
    if as_json:
        show_json({**asdict(load), **asdict(figures)})
        return
    rows = [
        {"measured": measured, "result": result}
        for measured, result in (
            ("produce", f"{figures.produce_messages_per_s:,.0f} messages/s"),
            ("", f"{figures.produce_mb_per_s:,.1f} MB/s"),
            ("consume", f"{figures.consume_messages_per_s:,.0f} messages/s"),
            ("", f"{figures.consume_mb_per_s:,.1f} MB/s"),
            ("round trip p50", f"{figures.round_trip_p50_ms:.2f} ms"),
            ("round trip p99", f"{figures.round_trip_p99_ms:.2f} ms"),
        )
    ]
    show_table(rows)


async def _measure_somewhere(load: _Load, bootstrap: str | None) -> _Figures:
    if bootstrap is not None:
        async with connected(bootstrap) as mq:
            return await _measure(mq, load)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        async with BrokerProcess(Path(folder)) as broker, connected(broker.address) as mq:
            return await _measure(mq, load)


async def _measure(mq: Client, load: _Load) -> _Figures:
    topic = f"penstock-bench-{uuid.uuid4().hex[:8]}"
    await mq.admin.create_topic(topic, load.partitions, {"durability": load.durability})
    try:
        with progress(2 * load.messages + load.round_trips) as advance:
            advance(0, "publishing")
            produce_s = await _produce(mq, topic, load)
            advance(load.messages, "consuming")
            consume_s = await _consume(mq, topic, load)
            advance(2 * load.messages, "round trips")
            times_ms = await _round_trips(mq, topic, load)
    finally:
        await mq.admin.delete_topic(topic)
    megabytes = load.messages * load.value_bytes / 1e6
    return _Figures(
        produce_messages_per_s=load.messages / produce_s,
        produce_mb_per_s=megabytes / produce_s,
        consume_messages_per_s=load.messages / consume_s,
        consume_mb_per_s=megabytes / consume_s,
        round_trip_p50_ms=times_ms[len(times_ms) // 2],
        round_trip_p99_ms=times_ms[len(times_ms) * 99 // 100],
    )


async def _produce(mq: Client, topic: str, load: _Load) -> float:
    value = b"x" * load.value_bytes
    async with mq.producer(compression=load.compression) as producer:
        # The connection, the route and the producer's id belong to no message.
        await producer.publish(topic, value)
        started = time.perf_counter()
        for _ in range(load.messages):
            await producer.send(topic, value)
        await producer.flush()
        return time.perf_counter() - started


async def _consume(mq: Client, topic: str, load: _Load) -> float:
    """Every value is looked at, as a program does: to drop them unread would be twice as fast."""
    count = read_bytes = 0
    started = time.perf_counter()
    async with mq.consumer(topic) as consumer:
        async for messages in consumer.batches():
            for message in messages:
                read_bytes += len(message.value or b"")
            count += len(messages)
            if count > load.messages:
                break
    seconds = time.perf_counter() - started
    # One more than was timed: the producer's first, which opened the connection.
    assert read_bytes == count * load.value_bytes == (load.messages + 1) * load.value_bytes, count
    return seconds


async def _round_trips(mq: Client, topic: str, load: _Load) -> list[float]:
    """How long one message at a time takes to be acknowledged, the shortest first."""
    value = b"x" * load.value_bytes
    times_ms = []
    async with mq.producer(linger_ms=0) as producer:
        for _ in range(load.round_trips):
            started = time.perf_counter()
            await producer.publish(topic, value)
            times_ms.append((time.perf_counter() - started) * 1000)
    return sorted(times_ms)
