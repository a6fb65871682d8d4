"""A segment that is damaged on the disk, read from a real broker (R-STO-6).

What a reader makes of an answer with damage is `tests/unit/client/consuming/test_consumer.py`'s;
here the bytes come out of a file as they lie there.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import penstock
import penstock.testing
from penstock import DamagedBatch
from penstock.records.header import read_header
from tests.system.clients import read_numbers, tidy_client

GOOD = 571


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
            for numbers in (range(GOOD), range(GOOD, 2 * GOOD), range(2 * GOOD, 2 * GOOD + 5)):
                async with mq.producer(linger_ms=60_000) as producer:
                    for number in numbers:
                        await producer.send("orders", b"%d" % number)
        if is_running:
            damage_second_batch(tmp_path / "data")
            await check(address)
            return
    damage_second_batch(tmp_path / "data")
    with penstock.testing.broker(data=data) as address:
        await check(address)


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
