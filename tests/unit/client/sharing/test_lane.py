"""Leasing ahead of the reader: when it asks, and how it ends."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from penstock.client.concurrency.backoff import Backoff
from penstock.client.connection.routes import Routes
from penstock.client.sharing.buffer import LeaseBuffer
from penstock.client.sharing.lane import LeaseLane
from penstock.model.errors import PenstockError, UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.protocol import penstock_pb2 as pb
from tests.kit.broker.running import batch

JOBS = TopicPartition("jobs", 0)


class Leader:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers: asyncio.Queue[PenstockError | None] = asyncio.Queue()

    async def leader(self, *_: Any, refresh: bool) -> Leader:
        del refresh
        return self

    async def call(self, *_: Any, timeout_s: float) -> tuple[pb.LeaseResponse, bytearray]:
        del timeout_s
        self.asked += 1
        if (error := await self.answers.get()) is not None:
            raise error
        leased = pb.LeaseResponse(lease_ms=30_000)
        leased.leases.add(first=0, last=0, attempt=1)
        return leased, bytearray(batch([b"one"]))


class Bench:
    def __init__(self) -> None:
        self.failures: list[PenstockError] = []
        self.leader = Leader()
        self.buffer = LeaseBuffer(10, None, self.failures.append)
        backoff = Backoff(first_s=0.001, longest_s=0.001)
        routes = cast(Routes, self.leader)
        self.lane = LeaseLane("g", "a", JOBS, routes, backoff, max_wait_ms=5_000, bytes_max=1_000)
        self.running = asyncio.create_task(self.lane.run(self.buffer))

    async def is_asked(self) -> None:
        async with asyncio.timeout(10):
            while not self.leader.asked:
                await asyncio.sleep(0)


async def test_what_was_asked_for_comes_though_it_is_stopped() -> None:
    """R-DEL-3: the broker may have leased it by now; nobody else gets it before the lease ends."""
    bench = Bench()
    await bench.is_asked()
    bench.lane.stop()
    bench.leader.answers.put_nowait(None)
    async with asyncio.timeout(10):
        await bench.running
    assert (len(bench.buffer), bench.leader.asked) == (1, 1)


async def test_a_partition_that_is_gone_when_it_is_left_is_no_failure() -> None:
    bench = Bench()
    await bench.is_asked()
    bench.lane.stop()
    bench.leader.answers.put_nowait(UnknownTopic("jobs was deleted."))
    async with asyncio.timeout(10):
        await bench.running
    assert bench.failures == []


async def test_a_partition_that_is_gone_is_one_otherwise() -> None:
    bench = Bench()
    bench.leader.answers.put_nowait(error := UnknownTopic("jobs was deleted."))
    async with asyncio.timeout(10):
        await bench.running
    assert bench.failures == [error]
