"""Ranges of offsets through the public face, from a real broker: columns in, columns out."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import penstock
from penstock.model.errors import OffsetOutOfRange, UnknownTopic
from penstock.model.limits import KIB
from penstock.records import (
    Codec,
    Columns,
    EncodedBatch,
    OutgoingColumns,
    encode_columns,
    hash_partitions,
)
from penstock.testing import broker
from tests.kit.processes.brokers import BrokerProcess
from tests.kit.records.column_rows import binary_column, outgoing, rows_of
from tests.kit.records.oracles import Record
from tests.system.clients import PATIENCE_S, tidy_client, until

NOW_MS = 1_700_000_000_000
ROWS: list[Record] = [
    (
        NOW_MS + n,
        b"key %d" % (n % 100) if n % 7 else None,
        b"%d " % n + bytes(n % 300) if n % 11 else None,
        (("n", b"%d" % n), ("none", None))[: n % 3],
    )
    for n in range(5000)
]
# The rows are old, and stay all the same.
SMALL_SEGMENTS = {"segment_bytes": str(64 * KIB), "retention_ms": "-1"}


def encoded(rows: list[Record], batch_bytes: int = 4 * KIB) -> list[EncodedBatch]:
    """Batches for partition 0."""
    partitions = array("i", bytes(4 * len(rows)))
    return encode_columns(
        outgoing(rows), partitions, codec=Codec.NONE, batch_bytes=batch_bytes, now_ms=0
    )


async def take(reading: AsyncIterator[Columns], found: list[int]) -> None:
    """Note the offsets that come, until the end or the error."""
    async with asyncio.timeout(PATIENCE_S):
        async for columns in reading:
            found += columns.offsets


@pytest.fixture
async def filled(penstock_broker: str, penstock_topic: str) -> str:
    """A topic with one partition of 5,000 rows in several segments."""
    async with penstock.connect(penstock_broker) as mq:
        await mq.admin.create_topic(penstock_topic, 1, SMALL_SEGMENTS)
        async with mq.producer() as producer:
            await producer.send_batches(penstock_topic, encoded(ROWS))
        description = await mq.admin.describe_topic(penstock_topic)
        assert description.partitions[0].segment_count > 5
    return penstock_topic


@pytest.mark.parametrize(
    ("start", "end"), [(0, 5000), (0, 1), (4999, 5000), (17, 4983), (1234, 1240), (3000, 3000)]
)
async def test_what_was_written_as_columns_is_read_as_columns(
    penstock_broker: str, filled: str, start: int, end: int
) -> None:
    """R-SPK-1, R-STO-2: over several segments, from and to the middle of a batch."""
    async with tidy_client(penstock_broker) as mq:
        found = [
            row
            async for columns in mq.read_range(filled, 0, start, end, include_headers=True)
            for row in rows_of(columns)
        ]
    assert found == [(offset, *row) for offset, row in enumerate(ROWS)][start:end]


async def test_the_same_rows_as_a_consumer_reads(penstock_broker: str, filled: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        async with mq.consumer(filled) as consumer:
            messages = await consumer.fetch()
        found = [
            row
            async for columns in mq.read_range(filled, 0, 0, len(messages), include_headers=True)
            for row in rows_of(columns)
        ]
    assert found == [(m.offset, m.timestamp_ms, m.key, m.value, m.headers) for m in messages]


@pytest.mark.parametrize("codec", Codec)
def test_without_asyncio(penstock_broker: str, penstock_topic: str, codec: Codec) -> None:
    """Keys go to the partitions that a producer would have chosen for them."""
    with penstock.connect_blocking(penstock_broker) as mq:
        mq.admin.create_topic(penstock_topic, 4)
        assert mq.partition_count(penstock_topic) == 4
        keys = binary_column([b"key %d" % (n % 50) for n in range(2000)])
        columns = OutgoingColumns(row_count=2000, keys=keys, values=keys)
        with mq.producer() as producer:
            partitions = hash_partitions(keys, 2000, 4, null_partition=0)
            batches = encode_columns(
                columns, partitions, codec=codec, batch_bytes=8 * KIB, now_ms=NOW_MS
            )
            producer.send_batches(penstock_topic, batches)
            receipts = [
                producer.publish(penstock_topic, b"one by one", b"key %d" % n) for n in range(50)
            ]
        placed: dict[bytes | None, set[int]] = {}
        count = 0
        for partition in range(4):
            end = mq.admin.find_offset(penstock_topic, partition, "latest")
            for columns_read in mq.read_range(penstock_topic, partition, 0, end):
                for _, _, key, _, _ in rows_of(columns_read):
                    placed.setdefault(key, set()).add(partition)
                    count += 1
    assert count == 2050
    assert placed == {b"key %d" % n: {receipt.partition} for n, receipt in enumerate(receipts)}


def test_a_compacted_topic() -> None:
    """What compaction took is not there, and is no error: also at the end of the range."""
    with broker(retention_check_ms=50) as address, penstock.connect_blocking(address) as mq:
        mq.admin.create_topic("state", 1, {**SMALL_SEGMENTS, "cleanup_policy": "compact"})
        rows: list[Record] = [(NOW_MS, b"%d" % (n % 10), bytes(200), ()) for n in range(3000)]
        with mq.producer() as producer:
            producer.send_batches("state", encoded(rows))

        def offsets(start: int, end: int) -> list[int]:
            return [
                offset
                for columns in mq.read_range("state", 0, start, end)
                for offset in columns.offsets
            ]

        before = offsets(0, 3000)
        assert before == sorted(set(before))
        asyncio.run(until(lambda: len(offsets(0, 3000)) < 1000))
        after = offsets(0, 3000)
        assert after[-10:] == list(range(2990, 3000))
        for start, end in ((0, 100), (0, 1500), (700, 1900), (1, 2995), (100, 101)):
            assert offsets(start, end) == [offset for offset in after if start <= offset < end]


async def test_retention_under_a_reader() -> None:
    """An error that says what is left, and never a gap."""
    with broker(retention_check_ms=20) as address:
        async with tidy_client(address) as mq:
            config = {**SMALL_SEGMENTS, "segment_bytes": str(512 * KIB)}
            await mq.admin.create_topic("orders", 1, config)
            rows: list[Record] = [(NOW_MS, None, bytes(1000), ())] * 12_000
            async with mq.producer() as producer:
                await producer.send_batches("orders", encoded(rows, 60 * KIB))
            reading = mq.read_range("orders", 0, 0, 12_000)
            found = [*(await anext(reading)).offsets]
            await mq.admin.alter_topic("orders", {"retention_bytes": str(512 * KIB)})
            async with asyncio.timeout(PATIENCE_S):
                while await mq.admin.find_offset("orders", 0, "earliest") < 11_000:
                    await asyncio.sleep(0.01)
            with pytest.raises(OffsetOutOfRange) as caught:
                await take(reading, found)
            assert found == list(range(len(found)))
            start = await mq.admin.find_offset("orders", 0, "earliest")
            assert (caught.value.log_start_offset, caught.value.log_end_offset) == (start, 12_000)
            found = []
            await take(mq.read_range("orders", 0, start, 12_000), found)
            assert found == list(range(start, 12_000))


async def test_ranges_that_are_not_there(penstock_broker: str, filled: str) -> None:
    async with tidy_client(penstock_broker) as mq:
        with pytest.raises(OffsetOutOfRange, match="next message will be at 5000") as caught:
            await take(mq.read_range(filled, 0, 0, 5001), [])
        assert (caught.value.log_start_offset, caught.value.log_end_offset) == (0, 5000)
        with pytest.raises(OffsetOutOfRange):
            await take(mq.read_range(filled, 0, 6000, 6001), [])
        with pytest.raises(UnknownTopic):
            await take(mq.read_range(filled, 1, 0, 1), [])
        reading = mq.read_range(filled, 0, 0, 1)
        await mq.admin.delete_topic(filled)
        with pytest.raises(UnknownTopic):
            await take(reading, [])


@pytest.mark.parametrize("act", [BrokerProcess.stop, BrokerProcess.kill])
async def test_a_broker_that_restarts_under_a_reader(tmp_path: Path, act: object) -> None:
    """R-DEL-6: reading goes on where it was, once the broker is back."""
    assert callable(act)
    with BrokerProcess(tmp_path) as process:
        async with tidy_client(process.address) as mq:
            rows: list[Record] = [(NOW_MS, None, bytes(1000), ())] * 12_000
            async with mq.producer() as producer:
                await producer.send_batches("orders", encoded(rows, 60 * KIB))
            reading = mq.read_range("orders", 0, 0, 12_000)
            found = [*(await anext(reading)).offsets]
            await asyncio.to_thread(act, process)
            rest = asyncio.ensure_future(take(reading, found))
            await asyncio.to_thread(process.start)
            await rest
            assert found == list(range(12_000))
