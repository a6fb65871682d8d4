"""What does a filter cost the broker, for each message that it looks at?

One broker process, one partition of messages of 100 bytes with a key of 8 and three headers, in
batches of 1,000. All of it is fetched once through each filter, and the broker's CPU time is
divided by the messages; beside it the same without a filter, where the broker opens nothing. And
how long another client's call takes while a filter is at work, which is asked in small pieces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from benchmarks import servers
from benchmarks.report import Row
from benchmarks.servers import Server
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Codec

_QUESTION: Final = "filters"
_BATCH_MESSAGES: Final = 1000
_NOW_MS: Final = 1_700_000_000_000
# About as dear as the broker lets one be.
_DEAR: Final = " OR ".join(f"region LIKE '%{number}_x%'" for number in range(12))

_CASES: Final[dict[str, pb.Filter | None]] = {
    "no filter": None,
    "tag, 1 of 100 passes": pb.Filter(tags=["tag-7"]),
    "tag, 1 of 2 passes": pb.Filter(tags=[f"tag-{number}" for number in range(0, 100, 2)]),
    "tag, all pass": pb.Filter(tags=[f"tag-{number}" for number in range(100)]),
    "key": pb.Filter(key=b"key-0007"),
    "key prefix": pb.Filter(key_prefix=b"key-00"),
    "price > 900": pb.Filter(expression="price > 900"),
    "region = 'eu'": pb.Filter(expression="region = 'eu'"),
    "region LIKE '%s_a'": pb.Filter(expression="region LIKE '%s_a'"),
    "four parts": pb.Filter(
        expression="region IN ('eu', 'uk') AND price BETWEEN 100 AND 200 AND tag LIKE 'tag-%' "
        "AND NOT key = 'key-0007'"
    ),
}


def run(*, quick: bool = False, peers: bool = False) -> list[Row]:  # noqa: ARG001
    """Brokers of others filter by other rules and on other terms, so there is no peer."""
    count = 20_000 if quick else 500_000
    rows: list[Row] = []
    with servers.scratch_folder() as folder, servers.start_penstock(folder) as server:
        rows += asyncio.run(_costs(server, count, 1 if quick else 3))
        rows += asyncio.run(_waits(server, 20 if quick else 500))
    return rows


async def _costs(server: Server, count: int, rounds: int) -> list[Row]:
    channel = await connect_channel(parse_address(server.bootstrap))
    rows: list[Row] = []
    try:
        for codec in (Codec.NONE, Codec.ZSTD):
            topic = codec.name.lower()
            await _fill(channel, topic, count, codec)
            best: dict[str, float] = dict.fromkeys(_CASES, float("inf"))
            passed: dict[str, int] = {}
            for _ in range(rounds):
                for name, filter_ in _CASES.items():
                    before_s = server.cpu_s
                    passed[name] = await _read(channel, topic, filter_, count)
                    cost_us = (server.cpu_s - before_s) / count * 1e6
                    best[name] = min(best[name], cost_us)
            suffix = "" if codec is Codec.NONE else f", {topic}"
            rows += [
                Row(
                    f"{_QUESTION}{suffix}", name, cost, "µs/message", f"{passed[name]:,} bytes sent"
                )
                for name, cost in best.items()
            ]
    finally:
        channel.close()
    return rows


async def _fill(channel: Channel, topic: str, count: int, codec: Codec) -> None:
    request = pb.CreateTopicRequest(name=topic, partitions=1, config={"durability": "os"})
    await channel.call(calls.CREATE_TOPIC, request)
    regions: Sequence[bytes] = (b"eu", b"uk", b"us", b"asia")
    for first in range(0, count, _BATCH_MESSAGES):
        builder = BatchBuilder(1 << 20, codec)
        for number in range(first, first + _BATCH_MESSAGES):
            headers = [
                ("penstock-tag", b"tag-%d" % (number % 100)),
                ("price", b"%d" % (number % 1000)),
                ("region", regions[number % 4]),
            ]
            key = b"key-%04d" % (number % 1000)
            builder.append(_NOW_MS + number, key, b"%0100d" % number, headers)
        batch = builder.build()
        await channel.call(calls.PRODUCE, pb.ProduceRequest(topic=topic, acks=1), [batch])


async def _read(channel: Channel, topic: str, filter_: pb.Filter | None, count: int) -> int:
    """All of the topic; how many bytes came."""
    offset = received = 0
    while offset < count:
        request = pb.FetchRequest(topic=topic, offset=offset, max_bytes=1 << 20, filter=filter_)
        response, payload = await channel.call(calls.FETCH, request)
        received += len(payload)
        offset = response.next_offset if filter_ is not None else offset + _messages_in(payload)
    return received


def _messages_in(payload: memoryview) -> int:
    position = messages = 0
    while position < len(payload):
        messages += _BATCH_MESSAGES
        position += 12 + int.from_bytes(payload[position + 8 : position + 12])
    return messages


async def _waits(server: Server, count: int) -> list[Row]:
    """Round trips of a small call, alone and beside a filter that is as dear as any may be."""
    small = await connect_channel(parse_address(server.bootstrap))
    busy = await connect_channel(parse_address(server.bootstrap))
    rows: list[Row] = []
    try:
        for name, dear in (("alone", None), ("beside a dear filter", pb.Filter(expression=_DEAR))):
            reading = asyncio.create_task(_repeat(busy, dear)) if dear is not None else None
            waits_ms = []
            for _ in range(count):
                before_s = time.perf_counter()
                await small.call(calls.FETCH, pb.FetchRequest(topic="none", offset=0, max_bytes=1))
                waits_ms.append((time.perf_counter() - before_s) * 1000)
            if reading is not None:
                assert not reading.done(), "it was refused"
                reading.cancel()
            waits_ms.sort()
            for share, label in ((0.5, "median"), (0.99, "p99")):
                wait_ms = waits_ms[int(share * (count - 1))]
                rows.append(Row(f"{_QUESTION}: another's call", f"{name}, {label}", wait_ms, "ms"))
    finally:
        small.close()
        busy.close()
    return rows


async def _repeat(channel: Channel, filter_: pb.Filter) -> None:
    while True:
        request = pb.FetchRequest(topic="none", offset=0, max_bytes=1 << 20, filter=filter_)
        await channel.call(calls.FETCH, request)
