"""Batches of a few kilobytes that open to much: members get what is in them, and others are served
meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.delivery import share_log
from penstock.model.limits import MIB
from penstock.records import BatchBuilder, Codec
from tests.support import another_client, batch
from tests.unit.broker.delivery.share_harness import Stage, stage

BOMBS = 4
SIZE = 8 * MIB


async def publish_bombs(here: Stage) -> None:
    for _ in range(BOMBS):
        builder = BatchBuilder(2 * SIZE, Codec.ZSTD)
        builder.append(1_000, b"key", bytes(SIZE))
        await here.client.produce("orders", bytearray(builder.build()))


@pytest.mark.parametrize("ordered", [False, True])
async def test_others_are_served_while_bombs_are_leased(ordered: bool) -> None:
    async with stage() as here, another_client(here.broker) as other:
        await here.client.create("others")
        member = await here.member("a", ordered_by_key=ordered)
        await publish_bombs(here)

        async def work() -> None:
            left = BOMBS
            while left:
                for message in await member.lease(1, max_wait_ms=60_000):
                    assert message.value == bytes(SIZE)
                    assert await member.settle(message.offset) == 0
                    left -= 1

        working = asyncio.create_task(work())
        served = 0
        while not working.done():
            await other.produce("others", batch([b"x"]))
            served += 1
        await working
        # Opened on the loop, each lets by those few that come between its own calls.
        assert served >= 8 * BOMBS, f"{served} round trips beside {BOMBS} bombs"


async def test_small_batches_opened_by_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if each took long: all of them come, in parts, and those that cannot be opened die."""
    monkeypatch.setattr(share_log, "_AT_ONCE_BYTES_MAX", 10)
    async with stage() as here:
        member = await here.member("a")
        for _ in range(6):
            await here.publish(10, codec=Codec.ZSTD)
        got: list[int] = []
        async with asyncio.timeout(20):
            while len(got) < 60:
                for message in await member.lease(7, max_wait_ms=60_000):
                    got.append(message.offset)
                    assert await member.settle(message.offset) == 0
        assert got == list(range(60))
