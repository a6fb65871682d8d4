"""Messages into the dead-letter topic of their group, whatever their size (R-DEL-9)."""

from __future__ import annotations

import asyncio

import pytest

from penstock.broker.carrier.forwarding import Done, Forwarding
from penstock.broker.delivery import dead_letters
from penstock.client.client import connect
from penstock.model.dead_letter import read_dead_letter
from penstock.model.errors import UnknownTopic
from penstock.model.ids import TopicPartition
from penstock.model.limits import BATCH_BYTES_MAX, RECORD_HEADERS_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import DEAD_LETTER
from penstock.records import BatchBuilder, Codec
from penstock.records.header import check_batch
from penstock.records.plain import PlainBatch, plain_batch
from penstock.records.slicing import SliceableBatch
from tests.kit.broker.openings import Watch, tiny_headers, zeros
from tests.kit.broker.running import running
from tests.kit.broker.shared_groups import REJECT, stage
from tests.kit.simulated_disk import SimulatedDisk


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

    def counted(batch: memoryview, plain: PlainBatch) -> SliceableBatch:
        opened.append(plain.header.base_offset)
        return SliceableBatch(batch, plain)

    monkeypatch.setattr(dead_letters, "SliceableBatch", counted)
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


async def test_what_is_damaged_on_the_disk_dies_in_its_place_alone() -> None:
    """R-DEL-9: else its group would try to bury it for ever."""
    disk = SimulatedDisk()
    async with stage(disk) as here:
        await here.publish(3)
        (path,) = [path for path in disk.files() if path.endswith(".log") and "/orders/" in path]
        disk.flip_bit(path, len(disk.files()[path]) - 1, 0)
        request = pb.DeadLetterRequest(group="g", topic="orders", offset=1, reason="never")
        await here.client.channel.call(DEAD_LETTER, request)
        [record] = await here.dead_letters()
        letter = read_dead_letter(record.key, record.value, record.headers)
        assert letter is not None
        assert (letter.offset, letter.value, letter.reason) == (1, None, "never")


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
            await consumer.ledger._routes.call_leader(partition, DEAD_LETTER, request)
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


@pytest.mark.parametrize("payload", [zeros(), tiny_headers(900, 1_000)], ids=["zeros", "headers"])
async def test_nobody_waits_for_what_is_buried(
    monkeypatch: pytest.MonkeyPatch, payload: bytearray
) -> None:
    """R-NET-5: a thread opens what they died in, one batch at a time, and takes out those alone."""
    async with stage() as here:
        await here.client.produce("orders", payload)
        member = await here.member("a")
        [message] = await member.lease(1, max_wait_ms=60_000)
        watch = Watch(monkeypatch)
        assert await member.settle(0, kind=REJECT, reason="never") == 0
        async with asyncio.timeout(20):
            [dead] = await here.dead_letters()
        assert dead.value == message.value
        assert set(message.headers) <= set(dead.headers)
        watch.check()
        # And another the letter, in whose topic each has a key.
        assert len(watch.by_threads) in (1, 2)
        view = memoryview(payload)
        assert watch.by_threads[0] == len(plain_batch(check_batch(view), view, 1 << 30).batch)


async def test_a_message_with_headers_beyond_reason_dies_in_its_place_alone() -> None:
    """R-DEL-9: it was let in unseen, and nobody takes its headers out one by one."""
    async with stage() as here:
        await here.publish(1)
        await here.client.produce("orders", tiny_headers(RECORD_HEADERS_MAX + 1, 1))
        await here.publish(1)
        member = await here.member("a")
        got: list[int] = []
        while len(got) < 2:
            for message in await member.lease():
                got.append(message.offset)
                assert await member.settle(message.offset) == 0
        assert got == [0, 2]
        asking = asyncio.create_task(member.lease(max_wait_ms=60_000))
        async with asyncio.timeout(10):
            [dead] = await here.dead_letters()
        asking.cancel()
        letter = read_dead_letter(dead.key, dead.value, dead.headers)
        assert letter is not None
        assert (letter.offset, letter.value) == (1, None)
