"""DeleteRecords: what is gone, and what cannot go."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tests.kit.broker.kafka_client import KafkaClient, kafka_running
from tests.kit.broker.kafka_talk import create, fetch, fill, values_of
from tests.kit.simulated_disk import SimulatedDisk


async def delete(
    client: KafkaClient, *wanted: tuple[int, int], topic: str = "orders", version: int = 2
) -> list[tuple[int, int]]:
    """(error code, low watermark) for each (partition, offset)."""
    partitions = [DeleteRecordsPartition(*one) for one in wanted]
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, partitions)])
    response: Any = await client.call(apis.DELETE_RECORDS, version, request)
    (answer,) = response.topics
    assert [part.partition_index for part in answer.partitions] == [one[0] for one in wanted]
    return [(part.error_code, part.low_watermark) for part in answer.partitions]


@pytest.mark.parametrize("version", range(3))
async def test_records_before_an_offset_are_gone(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client, partitions=2)
        await fill(client, b"a", b"b", b"c")
        await fill(client, b"d", partition=1)
        assert await delete(client, (0, 2), (1, -1), version=version) == [(0, 2), (0, 1)]
        parts = await fetch(client, [2, 1])
        assert [part.log_start_offset for part in parts.values()] == [2, 1]
        assert values_of(parts[0], 2) == [b"c"]
        early = await fetch(client, [1])
        assert early[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_what_is_gone_stays_gone() -> None:
    """R-STO-1: it is durable before it is answered."""
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root) as (_, client):
        await create(client)
        await fill(client, b"a", b"b")
        assert await delete(client, (0, 1)) == [(0, 1)]
    async with kafka_running(disk=disk.root) as (_, client):
        assert (await fetch(client, [1]))[0].log_start_offset == 1
        assert await delete(client, (0, 0), (0, 1)) == [(0, 1), (0, 1)], "no way back"


@pytest.mark.parametrize(
    ("topic", "partition", "offset", "code"),
    [
        ("orders", 0, 2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 0, 2**63 - 1, ErrorCode.OFFSET_OUT_OF_RANGE),
        ("orders", 1, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nothing", 0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__offsets", 0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_what_cannot_go(topic: str, partition: int, offset: int, code: ErrorCode) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        assert await delete(client, (partition, offset), topic=topic) == [(code, -1)]
        assert values_of((await fetch(client))[0]) == [b"a"]


@pytest.mark.parametrize(
    ("policy", "code"),
    [("compact", ErrorCode.POLICY_VIOLATION), ("compact,delete", ErrorCode.NONE)],
)
async def test_a_topic_that_only_compacts_keeps_all_offsets(policy: str, code: ErrorCode) -> None:
    async with kafka_running() as (_, client):
        await create(client, cleanup_policy=policy)
        [(found, _)] = await delete(client, (0, 0))
        assert found == code


async def test_a_disk_that_fails_is_told() -> None:
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root) as (_, client):
        await create(client, partitions=2)
        await fill(client, b"a", b"b")
        disk.fail_next("flush")
        assert await delete(client, (0, 1), (1, 0)) == [
            (ErrorCode.KAFKA_STORAGE_ERROR, -1),
            (ErrorCode.NONE, 0),
        ]


async def test_thousands_at_once() -> None:
    """Of partitions that are not there: each is answered, none is a task."""
    async with kafka_running() as (_, client):
        await create(client)
        answers = await delete(client, *[(number, 0) for number in range(5_000)])
        assert answers[0] == (0, 0)
        assert set(answers[1:]) == {(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)}
