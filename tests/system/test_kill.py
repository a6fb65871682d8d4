"""Brokers killed with SIGKILL under load: everything acknowledged is there, once and in order."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict
from functools import partial
from pathlib import Path

import pytest

import penstock
from penstock.client.producing.receipts import Receipt
from tests.kit.processes.brokers import BrokerProcess

pytestmark = pytest.mark.executed

PARTITIONS = 3


class Load:
    """Publishes numbered messages until told to stop, and notes which were acknowledged."""

    def __init__(self) -> None:
        self.acknowledged: dict[bytes, Receipt] = {}
        self.stopping = False

    async def run(self, address: str) -> None:
        async with (
            penstock.connect(address) as mq,
            mq.producer(linger_ms=1, batch_bytes=4096, request_timeout_ms=2000) as producer,
        ):
            number = 0
            while not self.stopping:
                value = b"%d" % number
                future = await producer.submit("orders", value, key=b"key %d" % (number % 7))
                future.add_done_callback(partial(self._note, value))
                number += 1
                if number % 50 == 0:
                    await asyncio.sleep(0)

    def _note(self, value: bytes, done: asyncio.Future[Receipt]) -> None:
        if not done.cancelled() and done.exception() is None:
            self.acknowledged[value] = done.result()

    async def until_acknowledged(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.acknowledged) < count:
                await asyncio.sleep(0.01)


async def read_everything(address: str) -> dict[int, list[tuple[int, bytes]]]:
    """(offset, value) of every message, by partition, in the order they are read."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    async with penstock.connect(address) as mq:
        description = await mq.admin.describe_topic("orders")
        left = sum(partition.high_watermark for partition in description.partitions)
        async with mq.consumer("orders", start="earliest") as consumer:
            async with asyncio.timeout(60):
                while left:
                    messages = await consumer.fetch(max_messages=10_000)
                    left -= len(messages)
                    for message in messages:
                        assert message.value is not None
                        found[message.partition].append((message.offset, message.value))
    return found


@pytest.mark.parametrize("durability", ["fsync", "os"])
async def test_sigkill_under_load_loses_and_repeats_nothing(
    tmp_path: Path, durability: str
) -> None:
    """R-STO-6, R-PRO-2, R-CORE-1: killed again and again while a client publishes; the client
    goes on by itself; every acknowledged message is there once, at the offset it was told, and
    the messages of a key are in order."""
    settings = (f"partitions_default={PARTITIONS}", f"topic_defaults.durability={durability}")
    load = Load()
    with BrokerProcess(tmp_path, *settings, "topic_defaults.segment_bytes=64KiB") as broker:
        publishing = asyncio.create_task(load.run(broker.address))
        for kill in range(1, 5):
            await load.until_acknowledged(3000 * kill)
            await asyncio.to_thread(broker.kill)
            await asyncio.to_thread(broker.start)
        await load.until_acknowledged(len(load.acknowledged) + 3000)
        load.stopping = True
        await publishing
        found = await read_everything(broker.address)
        assert await asyncio.to_thread(verify, tmp_path) == 0

    by_place = {
        (partition, offset): value
        for partition, messages in found.items()
        for offset, value in messages
    }
    for value, receipt in load.acknowledged.items():
        assert by_place[receipt.partition, receipt.offset] == value
    values = [value for messages in found.values() for _, value in messages]
    assert len(values) == len(set(values)), "a retry made a duplicate"
    for messages in found.values():
        assert [offset for offset, _ in messages] == list(range(len(messages)))
        by_key = defaultdict(list)
        for _, value in messages:
            by_key[int(value) % 7].append(int(value))
        assert all(numbers == sorted(numbers) for numbers in by_key.values())


def verify(data: Path) -> int:
    """`penstock inspect` on the folder, as a person would: 0 if nothing is damaged."""
    return subprocess.run(
        [sys.executable, "-m", "penstock.cli", "inspect", str(data)], stdout=subprocess.DEVNULL
    ).returncode
