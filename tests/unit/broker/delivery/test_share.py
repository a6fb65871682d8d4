"""Batches that a broker cannot open: dead letters of a shared group, which goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.model.dead_letter import read_dead_letter
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import BatchBuilder, Codec
from tests.unit.broker.delivery.share_harness import Stage, stage


async def publish_bomb(here: Stage) -> None:
    """Three messages that are small, and too large when they are opened."""
    builder = BatchBuilder(100_000_000, Codec.ZSTD)
    for _ in range(3):
        builder.append(1_000, b"key", bytes(25_000_000), ())
    batch = bytearray(builder.build())
    assert len(batch) < 10_000
    await here.client.produce("orders", batch)


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
