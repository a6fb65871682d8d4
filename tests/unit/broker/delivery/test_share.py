"""Batches that a broker cannot open: dead letters of a shared group, which goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker.delivery import share_log
from penstock.model.dead_letter import read_dead_letter
from penstock.model.limits import MIB
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import BatchBuilder, Codec
from tests.support import another_client, batch
from tests.unit.broker.delivery.share_harness import Stage, stage


async def publish_bomb(here: Stage) -> None:
    """Three messages that are small, and too large when they are opened."""
    builder = BatchBuilder(100_000_000, Codec.ZSTD)
    for _ in range(3):
        builder.append(1_000, b"key", bytes(25_000_000), ())
    bomb = bytearray(builder.build())
    assert len(bomb) < 10_000
    await here.client.produce("orders", bomb)


@pytest.mark.parametrize(
    "settings",
    [{}, {"ordered_by_key": True}, {"filter": pb.Filter(expression="timestamp > 0")}],
    ids=["plain", "ordered", "filtered"],
)
async def test_one_that_would_be_too_large_is_a_dead_letter(settings: dict[str, Any]) -> None:
    """R-DEL-9: whoever can write must not be able to stop those who read."""
    async with stage() as here:
        await here.publish(2, key=b"a")
        await publish_bomb(here)
        await here.publish(1, key=b"b")
        member = await here.member("m", **settings)
        seen: list[int] = []
        while len(seen) < 3:
            for message in await member.lease(2):
                seen.append(message.offset)
                assert await member.settle(message.offset) == 0
        assert sorted(seen) == [0, 1, 5]
        # It is found out when somebody asks for more, as consumers always do.
        asking = asyncio.create_task(member.lease(max_wait_ms=60_000))
        [record] = await here.dead_letters()
        asking.cancel()
        letter = read_dead_letter(record.key, record.value, record.headers)
        assert letter is not None
        assert (letter.topic, letter.partition, letter.offset) == ("orders", 0, 2)
        assert "cannot be decompressed" in letter.reason
        assert not letter.may_be_redriven(force=False), "there is nothing in it to be put back"
        assert await member.lease(max_wait_ms=1) == []


async def test_a_consumer_may_reject_what_the_broker_cannot_open() -> None:
    """R-DEL-9: an exclusive one, which opens it for itself."""
    async with stage() as here:
        await publish_bomb(here)
        request = pb.DeadLetterRequest(group="g", topic="orders", offset=1, reason="never")
        await here.client.channel.call(DEAD_LETTER, request)
        [record] = await here.dead_letters()
        letter = read_dead_letter(record.key, record.value, record.headers)
        assert letter is not None
        assert (letter.offset, letter.value) == (1, None)
        assert letter.reason == "never"


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
