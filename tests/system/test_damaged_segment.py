"""A segment that is damaged on the disk, read from a real broker (R-STO-6).

What a reader makes of an answer with damage is `tests/unit/client/consuming/test_consumer.py`'s;
here the bytes come out of a file as they lie there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import penstock
import penstock.testing
from penstock import DamagedBatch
from penstock.client.client import Client
from penstock.records.header import read_header
from tests.system.clients import read_numbers, tidy_client
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.share_members import LibrdkafkaMember, set_for_group

GOOD = 571
SECONDS_MAX = 60


@pytest.mark.parametrize(
    "is_running", [True, False], ids=["beneath the broker", "while it is down"]
)
async def test_all_in_front_of_a_damaged_batch_arrives_and_then_where_it_is(
    is_running: bool, tmp_path: Path
) -> None:
    """Both batches come with one fetch: the second costs nobody the first."""
    data = str(tmp_path / "data")
    with penstock.testing.broker(data=data) as address:
        async with penstock.connect(address) as mq:
            await publish_three_batches(mq)
        if is_running:
            damage_second_batch(tmp_path / "data")
            await check(address)
            return
    damage_second_batch(tmp_path / "data")
    with penstock.testing.broker(data=data) as address:
        await check(address)


async def publish_three_batches(mq: Client) -> None:
    for numbers in (range(GOOD), range(GOOD, 2 * GOOD), range(2 * GOOD, 2 * GOOD + 5)):
        async with mq.producer(linger_ms=60_000) as producer:
            for number in numbers:
                await producer.send("orders", b"%d" % number)


async def check(address: str) -> None:
    async with tidy_client(address) as mq, mq.subscribe("orders") as consumer:
        assert await read_numbers(consumer, GOOD) == list(range(GOOD))
        told = f"orders-0 cannot be read at offsets {GOOD} to {2 * GOOD - 1}: "
        with pytest.raises(DamagedBatch, match=told) as damaged:
            await consumer.fetch()
        assert (damaged.value.offset, damaged.value.next_offset) == (GOOD, 2 * GOOD)
        assert damaged.value.partition is not None
        await consumer.seek(damaged.value.partition, 2 * GOOD)
        assert await read_numbers(consumer, 5) == list(range(2 * GOOD, 2 * GOOD + 5))


@pytest.mark.parametrize("push", [False, True], ids=["asked", "pushed"])
@pytest.mark.parametrize(
    "settings",
    [{}, {"ordered": True}, {"filter": "timestamp > 0"}],
    ids=["plain", "ordered", "filtered"],
)
async def test_a_shared_group_goes_on_without_a_damaged_batch(
    push: bool, settings: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R-DEL-9: all before it and behind it arrives, once; the dead letter says what was lost, and
    the broker's log, in one line."""
    data = tmp_path / "data"
    with penstock.testing.broker(data=str(data)) as address:
        async with tidy_client(address) as mq:
            await publish_three_batches(mq)
            damage_second_batch(data)
            got: list[int] = []
            sound = [*range(GOOD), *range(2 * GOOD, 2 * GOOD + 5)]
            async with asyncio.timeout(SECONDS_MAX):
                async with mq.share("orders", group="g", push=push, **settings) as consumer:
                    async for message in consumer:
                        got.append(message.offset)
                        await message.ack()
                        if len(got) == len(sound):
                            break
                    while not (letters := [each async for each in mq.dead_letters.list("g")]):
                        await asyncio.sleep(0.05)
            assert sorted(got) == sound
            (letter,) = letters
            assert letter.offset == GOOD
            told = f"Offsets {GOOD} to {2 * GOOD - 1} of orders-0 cannot be read: "
            assert letter.reason.startswith(told)
            assert len([line for line in caplog.messages if line.startswith(told)]) == 1


def test_kafkas_share_consumer_goes_on_too(tmp_path: Path) -> None:
    """R-DEL-9: librdkafka's."""
    with penstock.testing.broker(data=str(tmp_path / "data")) as address:
        asyncio.run(publish(address))
        damage_second_batch(tmp_path / "data")
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        set_for_group(admin, "share.auto.offset.reset", "earliest", "g")
        sound = [*range(GOOD), *range(2 * GOOD, 2 * GOOD + 5)]
        with LibrdkafkaMember(address, "g", "orders") as member:
            until(lambda: len(member.got) >= len(sound), "all that is sound comes")
        assert sorted(one.offset for one in member.got) == sound


async def publish(address: str) -> None:
    async with tidy_client(address) as mq:
        await publish_three_batches(mq)


def damage_second_batch(data: Path) -> None:
    """One bit of its last record."""
    (segment,) = (data / "topics" / "orders" / "0").glob("*.log")
    content = segment.read_bytes()
    begin = read_header(content).length
    second = read_header(content, begin)
    assert second.base_offset == GOOD
    with segment.open("r+b") as file:
        at = begin + second.length - 1
        file.seek(at)
        file.write(bytes([content[at] ^ 1]))
