"""Offsets by place, by time and by leader epoch."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.protocol.kafka.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.kit.broker.kafka_client import KafkaClient, kafka_running
from tests.kit.broker.kafka_talk import codes, create, fill, produce
from tests.kit.broker.running import batch


async def list_offsets(
    client: KafkaClient, *wanted: ListOffsetsPartition, version: int = 11, topic: str = "orders"
) -> Any:
    request = ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, wanted)])
    response = await client.call(apis.LIST_OFFSETS, version, request)
    return response.topics[0].partitions


async def found(client: KafkaClient, timestamp: int, version: int = 11) -> tuple[int, int, int]:
    (part,) = await list_offsets(
        client, ListOffsetsPartition(0, timestamp=timestamp), version=version
    )
    return part.error_code, part.offset, part.timestamp


async def with_times(client: KafkaClient) -> None:
    """Ten batches of two messages, a second apart; the newest one is not the last."""
    await create(client)
    for number in (*range(9), 20, 9):
        await produce(client, batch([b"a", b"b"], timestamp_ms=1000 * number))


@pytest.mark.parametrize(
    ("timestamp", "since", "offset", "at_ms"),
    [
        (-1, 1, 22, -1),
        (-2, 1, 0, -1),
        (-3, 7, 18, 20_000),
        (-4, 8, 0, -1),
        (-5, 9, -1, -1),
        (-6, 11, -1, -1),
        (0, 1, 0, 0),
        (3000, 1, 6, 3000),
        (3001, 1, 8, 4000),
        (20_001, 1, -1, -1),
        (2**63 - 1, 1, -1, -1),
    ],
)
async def test_places_and_times(timestamp: int, since: int, offset: int, at_ms: int) -> None:
    """R-DEL-10: seek by time; KIP-734's newest, KIP-405's and later places since their version."""
    async with kafka_running() as (_, client):
        await with_times(client)
        for version in range(1, apis.LIST_OFFSETS.version_max + 1):
            expected = (ErrorCode.NONE, offset, at_ms)
            if version < since:
                expected = (ErrorCode.UNSUPPORTED_VERSION, -1, -1)
            assert await found(client, timestamp, version) == expected


@pytest.mark.parametrize("timestamp", [-7, -(2**63)])
async def test_numbers_that_stand_for_nothing(timestamp: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        assert await found(client, timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


async def test_an_empty_partition() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        for timestamp, offset in ((-1, 0), (-2, 0), (-3, -1), (-4, 0), (0, -1)):
            assert await found(client, timestamp) == (ErrorCode.NONE, offset, -1)


async def test_the_epoch_is_told_where_an_offset_is() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a")
        wanted = [ListOffsetsPartition(0, timestamp=timestamp) for timestamp in (-1, 2**60)]
        for one, epoch in zip(wanted, (0, -1), strict=True):
            (part,) = await list_offsets(client, one)
            assert part.leader_epoch == epoch


async def test_what_cannot_be_found() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        parts = await list_offsets(
            client,
            ListOffsetsPartition(0, timestamp=-1),
            ListOffsetsPartition(1, timestamp=-1),
            ListOffsetsPartition(-1, timestamp=-1),
        )
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes(parts) == [ErrorCode.NONE, unknown, unknown]
        missing = await list_offsets(client, ListOffsetsPartition(0), topic="nothing")
        assert codes(missing) == [unknown]
        for epoch, code in ((-2, 74), (0, 0), (1, 75)):
            parts = await list_offsets(client, ListOffsetsPartition(0, epoch, -1))
            assert codes(parts) == [code]


async def test_a_partition_named_twice_is_refused() -> None:
    """As in Kafka; and a search by time costs more than a name."""
    async with kafka_running() as (_, client):
        await create(client, partitions=2)
        wanted = [ListOffsetsPartition(number, timestamp=-1) for number in (0, 1, 0)]
        parts = await list_offsets(client, *wanted)
        assert codes(parts) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]


async def end_of(client: KafkaClient, epoch: int, current: int = -1, partition: int = 0) -> Any:
    wanted = OffsetForLeaderPartition(partition, current, epoch)
    topics = [OffsetForLeaderTopic("orders", [wanted])]
    request = OffsetForLeaderEpochRequest(topics=topics)
    response = await client.call(apis.OFFSET_FOR_LEADER_EPOCH, 4, request)
    (part,) = response.topics[0].partitions
    assert part.partition == partition
    return part.error_code, part.leader_epoch, part.end_offset


async def test_the_end_of_an_epoch() -> None:
    """KIP-101, KIP-320: of the one there is, its end so far; of one to come, nothing."""
    async with kafka_running() as (_, client):
        await create(client)
        await fill(client, b"a", b"b")
        assert await end_of(client, 0) == (ErrorCode.NONE, 0, 2)
        for unknown in (-1, -5, 1, 2**31 - 1):
            assert await end_of(client, unknown) == (ErrorCode.NONE, -1, -1)
        assert await end_of(client, 0, 0) == (ErrorCode.NONE, 0, 2)
        assert await end_of(client, 0, 1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
        assert await end_of(client, 0, partition=3) == (3, -1, -1)
