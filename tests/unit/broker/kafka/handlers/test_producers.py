"""Numbers for producers, and who is remembered where."""

from __future__ import annotations

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from penstock.protocol.kafka.messages.init_producer_id import InitProducerIdRequest
from tests.kit.broker.kafka_client import kafka_running
from tests.kit.broker.kafka_talk import codes, create, produce
from tests.kit.broker.running import ManualClock, batch
from tests.kit.simulated_disk import SimulatedDisk


async def test_no_two_producers_get_one_number() -> None:
    """R-PRO-2: not after a restart either, and not who was given one before."""
    disk = SimulatedDisk()
    given = set()
    for _ in range(2):
        async with kafka_running(disk=disk.root) as (_, client):
            for version in range(apis.INIT_PRODUCER_ID.version_max + 1):
                request = InitProducerIdRequest(None, 1000)
                if version >= 3:
                    request.producer_id, request.producer_epoch = 5, 3
                response = await client.call(apis.INIT_PRODUCER_ID, version, request)
                assert (response.error_code, response.producer_epoch) == (ErrorCode.NONE, 0)
                given.add(response.producer_id)
    assert len(given) == 2 * (apis.INIT_PRODUCER_ID.version_max + 1)


@pytest.mark.parametrize(
    ("name", "code"),
    [("t", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), ("", ErrorCode.INVALID_REQUEST)],
)
async def test_transactions_are_refused_clearly(name: str, code: ErrorCode) -> None:
    async with kafka_running() as (_, client):
        request = InitProducerIdRequest(name, 1000)
        response = await client.call(apis.INIT_PRODUCER_ID, 4, request)
        assert response.error_code == code
        assert response.producer_id == -1


async def test_who_produces_is_told() -> None:
    clock = ManualClock()
    async with kafka_running(clock=clock) as (_, client):
        await create(client, partitions=2)
        await produce(client, batch([b"a", b"b"], producer=(9, 2, 0)))
        request = DescribeProducersRequest([TopicRequest("orders", [0, 1, 2])])
        response = await client.call(apis.DESCRIBE_PRODUCERS, 0, request)
        parts = response.topics[0].partitions
        assert codes(parts) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        (producer,) = parts[0].active_producers
        assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (9, 2, 1)
        assert producer.last_timestamp == clock.time_ms
        assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
        assert parts[1].active_producers == []


async def test_a_partition_named_twice_is_refused() -> None:
    """Each may have thousands of producers to tell."""
    async with kafka_running() as (_, client):
        await create(client)
        request = DescribeProducersRequest([TopicRequest("orders", [0] * 1_000)])
        response = await client.call(apis.DESCRIBE_PRODUCERS, 0, request)
        assert set(codes(response.topics[0].partitions)) == {ErrorCode.INVALID_REQUEST}
