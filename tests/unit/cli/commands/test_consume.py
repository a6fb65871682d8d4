"""`penstock consume`: where it ends."""

from __future__ import annotations

import asyncio

from penstock import connect
from penstock.cli.commands.consume import _consume, _Job
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import ManualClock, batch, running

JOB = _Job(
    topic="t",
    partition=None,
    settings={"group": None, "start": "earliest"},
    count_max=None,
    timeout_s=None,
    until_end=True,
    encode=lambda message: message.value or b"",
)


async def test_the_end_may_hold_no_message() -> None:
    """Compaction takes what has no key, up to the very end: there is nothing to wait for."""
    clock = ManualClock()
    async with running(clock=clock, retention_check_ms=1) as (broker, client):
        await client.create("t", segment_ms="100", min_cleanable_dirty_ratio="0")
        await client.produce("t", batch([b"a", b"b", b"c"]))
        request = pb.AlterTopicRequest(name="t", set={"cleanup_policy": "compact"})
        await client.channel.call(calls.ALTER_TOPIC, request)
        clock.time_ms += 100
        async with asyncio.timeout(10), connect(broker.addresses) as mq:
            fetch = pb.FetchRequest(topic="t", offset=0, max_bytes=1 << 20)
            while len((await client.channel.call(calls.FETCH, fetch))[1]) > 61:
                await asyncio.sleep(0)
            await _consume(mq, JOB)
