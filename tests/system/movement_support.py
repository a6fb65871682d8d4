"""Load on a cluster while its partitions move, with a record of what was acknowledged.

One writer to a partition, one message at a time, numbered: so the record tells what must be there
and in which order. The invariant: what has no acknowledgement may be there or not, at most once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable

import penstock
from penstock import Client
from penstock.client.admin.cluster import ClusterStatus
from penstock.model.errors import PenstockError

SECONDS_MAX = 40.0


class Record:
    """What a writer of one partition was told."""

    def __init__(self) -> None:
        self.acknowledged: list[int] = []
        self.failures = 0
        self.longest_wait_s = 0.0


class Load:
    """One writer to each partition of a topic."""

    def __init__(self, mq: Client, topic: str, partitions: int) -> None:
        self.topic = topic
        self.records = [Record() for _ in range(partitions)]
        self._mq = mq
        self._is_over = False

    async def write(self, partition: int) -> None:
        record, number = self.records[partition], 0
        async with self._mq.producer(linger_ms=0) as producer:
            while not self._is_over:
                began = time.monotonic()
                try:
                    value = b"%d" % number + b" " * 500
                    await producer.publish(self.topic, value, partition=partition)
                except PenstockError:
                    record.failures += 1
                else:
                    record.acknowledged.append(number)
                    waited_s = time.monotonic() - began
                    record.longest_wait_s = max(record.longest_wait_s, waited_s)
                number += 1
                await asyncio.sleep(0.002)

    def end(self) -> None:
        self._is_over = True

    async def progress(self, messages: int = 20) -> None:
        """Wait until every writer has been told of some more."""
        before = [len(record.acknowledged) for record in self.records]
        deadline = time.monotonic() + SECONDS_MAX
        for record, had in zip(self.records, before, strict=True):
            while len(record.acknowledged) < had + messages:
                assert time.monotonic() < deadline, "nothing more is acknowledged"
                await asyncio.sleep(0.02)

    async def check(self, mq: Client) -> None:
        """R-REP-3: everything acknowledged is there, once, in order."""
        for partition, record in enumerate(self.records):
            start = await mq.admin.find_offset(self.topic, partition, "earliest")
            end = await mq.admin.find_offset(self.topic, partition, "latest")
            found: list[int] = []
            async for columns in mq.read_range(self.topic, partition, start, end):
                places, data = columns.values.offsets, bytes(columns.values.data)
                found += [int(data[a:b]) for a, b in itertools.pairwise(places)]
            missing = set(record.acknowledged) - set(found)
            assert not missing, f"{len(missing)} acknowledged are lost: {sorted(missing)[:5]}"
            assert found == sorted(set(found)), "some are there twice, or out of order"


@contextlib.asynccontextmanager
async def loaded(bootstrap: str, topic: str, partitions: int) -> AsyncIterator[Load]:
    """Writers at work; what they were told is checked at the end."""
    async with penstock.connect(bootstrap, route_refresh_ms=1_000) as mq:
        load = Load(mq, topic, partitions)
        async with asyncio.TaskGroup() as writers:
            for partition in range(partitions):
                writers.create_task(load.write(partition))
            try:
                await load.progress()
                yield load
                await load.progress()
            finally:
                load.end()
        await load.check(mq)


async def until(
    mq: Client, holds: Callable[[ClusterStatus], bool], seconds_max: float = SECONDS_MAX
) -> ClusterStatus:
    """The cluster as it is when that holds."""
    deadline = time.monotonic() + seconds_max
    while True:
        status = await mq.cluster.status()
        if holds(status):
            return status
        assert time.monotonic() < deadline, f"it never came to be: {status}"
        await asyncio.sleep(0.1)


async def until_moved(mq: Client) -> ClusterStatus:
    """All copies are where they should be, and have everything."""
    return await until(
        mq,
        lambda status: all(
            each.is_reached and set(each.in_sync) == set(each.target) for each in status.partitions
        ),
    )
