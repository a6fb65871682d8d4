"""Messages into the dead-letter topic of their group, whatever their size (R-DEL-9)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.delivery import dead_letters
from penstock.broker.forwarding import Done, Forwarding
from penstock.client.client import connect
from penstock.model.errors import UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.limits import BATCH_BYTES_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import BatchBuilder, Codec, Message, decode_batch
from penstock.records.header import BatchHeader
from tests.support import running
from tests.unit.broker.delivery.share_harness import REJECT, stage


async def test_letters_too_large_for_one_batch_are_all_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-9: none is left out because a batch was full."""
    monkeypatch.setattr(dead_letters, "_BATCH_BYTES", 300)
    async with stage() as here:
        await here.publish(5)
        a = await here.member("a")
        assert len(await a.lease()) == 5
        assert await a.settle(0, 4, kind=REJECT, reason="never") == 0
        async with asyncio.timeout(10):
            while len(dead := await here.dead_letters()) < 5:
                await asyncio.sleep(0)
        assert [letter.key for letter in dead] == [b"orders/0/%d" % at for at in range(5)]


async def test_a_batch_of_which_all_die_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-9: else a thousand messages that die together stop the broker for seconds."""
    opened: list[int] = []

    def counted(header: BatchHeader, batch: memoryview, bytes_max: int) -> list[Message]:
        opened.append(header.base_offset)
        return decode_batch(header, batch, bytes_max)

    monkeypatch.setattr(dead_letters, "decode_batch", counted)
    async with stage() as here:
        await here.publish(50)
        a = await here.member("a")
        assert len(await a.lease()) == 50
        assert await a.settle(0, 49, kind=REJECT, reason="never") == 0
        async with asyncio.timeout(10):
            while len(dead := await here.dead_letters()) < 50:
                await asyncio.sleep(0)
        assert [letter.key for letter in dead] == [b"orders/0/%d" % at for at in range(50)]
    assert opened == [0]


async def test_a_message_larger_than_a_batch_may_be_is_buried_compressed() -> None:
    """One that a producer sent compressed: else its group would try to bury it for ever."""
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders", 1, batch_bytes_max=str(2**20))
        builder = BatchBuilder(1, Codec.ZSTD)
        builder.append(1_000, None, bytes(BATCH_BYTES_MAX))
        await raw.produce("orders", bytearray(builder.build()))
        async with mq.subscribe("orders", group="g") as consumer:
            request = pb.DeadLetterRequest(group="g", topic="orders", offset=0)
            partition = TopicPartition("orders", 0)
            await consumer._routes.call_leader(partition, DEAD_LETTER, request)
        [letter] = [one async for one in mq.dead_letters.list("g")]
        assert len(letter.value or b"") == BATCH_BYTES_MAX


async def test_a_leader_that_has_not_heard_of_the_topic_yet_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-DEL-9: whoever rejects a message is not told that its dead-letter topic does not exist."""
    refused: list[TopicPartition] = []
    append = Forwarding.append

    def not_at_first(
        self: Forwarding, name: TopicPartition, batch: bytes | bytearray, done: Done
    ) -> None:
        if len(refused) < 2:
            refused.append(name)
            done(UnknownTopic("There is no such topic."))
        else:
            append(self, name, batch, done)

    monkeypatch.setattr(Forwarding, "append", not_at_first)
    async with running() as (broker, raw), connect(broker.addresses) as mq:
        await raw.create("orders", 1)
        await mq.publish("orders", b"bad")
        async with mq.subscribe("orders", group="g") as consumer:
            [message] = await consumer.fetch(1)
            await message.reject("never")
        assert [one.id async for one in mq.dead_letters.list("g")] == ["orders/0/0"]
    assert refused == [("dead-letters.g", 0)] * 2
