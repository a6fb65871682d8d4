"""Metadata: who is there, which topics, and topics made because somebody asked for them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.model.limits import DELETED_TOPIC_STAYS_MS
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.kafka.schema import ZERO_UUID
from tests.kit.broker.kafka_client import KafkaClient, connect, kafka_running
from tests.kit.broker.kafka_talk import codes, create, fetch, topic_id
from tests.kit.broker.running import ManualClock


async def ask(client: KafkaClient, *names: str, version: int = 12, creates: bool = True) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return await client.call(apis.METADATA, version, MetadataRequest(topics, creates))


@pytest.mark.parametrize("version", range(apis.METADATA.version_max + 1))
async def test_brokers_and_partitions(version: int) -> None:
    """R-CORE-5."""
    async with kafka_running(broker_id=7) as (broker, client):
        await create(client, partitions=2)
        response = await ask(client, "orders", version=version)
        (here,) = response.brokers
        assert f"{here.host}:{here.port}" == broker.addresses[0]
        assert here.node_id == 7
        (topic,) = response.topics
        assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
        assert [part.partition_index for part in topic.partitions] == [0, 1]
        assert {part.leader_id for part in topic.partitions} == {7}
        assert [list(part.replica_nodes) for part in topic.partitions] == [[7], [7]]
        assert (topic.topic_id != ZERO_UUID) == (version >= 10)
        if version >= 1:
            assert response.controller_id == 7
        if version >= 2:
            assert response.cluster_id


async def test_the_address_that_is_advertised_is_told() -> None:
    async with kafka_running(advertise="broker.example:1234") as (_, client):
        (here,) = (await ask(client)).brokers
        assert (here.host, here.port) == ("broker.example", 1234)


async def test_all_topics_or_none() -> None:
    """Version 0 had no null: nobody named meant everybody."""
    async with kafka_running() as (_, client):
        await create(client)
        for version, wanted, expected in ((0, [], 1), (1, [], 0), (1, None, 1), (12, None, 1)):
            response = await client.call(apis.METADATA, version, MetadataRequest(wanted))
            public = [topic for topic in response.topics if not topic.name.startswith("__")]
            assert len(public) == expected


async def test_topics_are_found_by_id() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        known = await topic_id(client)
        wanted = [
            MetadataRequestTopic(known, None),
            MetadataRequestTopic(b"\1" * 16, None),
            MetadataRequestTopic(ZERO_UUID, None),
            MetadataRequestTopic(b"\2" * 16, "orders"),
        ]
        response = await client.call(apis.METADATA, 12, MetadataRequest(wanted))
        assert [(topic.name, topic.error_code) for topic in response.topics] == [
            ("orders", ErrorCode.NONE),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
            (None, ErrorCode.UNKNOWN_TOPIC_ID),
        ]


@pytest.mark.parametrize("version", [10, 11])
async def test_ids_are_refused_in_versions_that_only_have_room_for_them(version: int) -> None:
    """As in Kafka; their answers cannot say a null name."""
    async with kafka_running() as (_, client):
        for wanted in (
            MetadataRequestTopic(b"\1" * 16, None),
            MetadataRequestTopic(b"\1" * 16, "x"),
        ):
            response = await client.call(apis.METADATA, version, MetadataRequest([wanted]))
            assert codes(response.topics) == [ErrorCode.INVALID_REQUEST]


async def test_missing_topics_are_made() -> None:
    async with kafka_running(partitions_default=3) as (_, client):
        response = await ask(client, "new", "newer", "new")
        assert [(topic.name, len(topic.partitions)) for topic in response.topics] == [
            ("new", 3),
            ("newer", 3),
        ]


@pytest.mark.parametrize(
    ("settings", "creates"), [({"auto_create_topics": False}, True), ({}, False)]
)
async def test_missing_topics_are_not_made_where_that_is_not_wanted(
    settings: dict[str, Any], creates: bool
) -> None:
    async with kafka_running(**settings) as (_, client):
        for _ in range(2):
            response = await ask(client, "new", "no good", "", creates=creates)
            assert codes(response.topics) == [
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
            ]
            assert [topic.name for topic in response.topics] == ["new", "no good", ""]


async def delete(client: KafkaClient, name: str) -> None:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name)])
    response = await client.call(apis.DELETE_TOPICS, 6, request)
    assert codes(response.responses) == [ErrorCode.NONE]


async def test_a_deleted_topic_is_not_made_again_by_those_that_still_use_it() -> None:
    """R-CORE-4: for a while by nobody, but whoever creates it gets it at once."""
    clock = ManualClock()
    async with kafka_running(clock=clock) as (_, client):
        await create(client)
        await delete(client, "orders")
        clock.time_ms += DELETED_TOPIC_STAYS_MS - 1
        assert codes((await ask(client, "orders")).topics) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert codes((await ask(client, "other")).topics) == [ErrorCode.NONE]
        await create(client)
        await delete(client, "orders")
        clock.time_ms += DELETED_TOPIC_STAYS_MS
        assert codes((await ask(client, "orders")).topics) == [ErrorCode.NONE], "a producer's"


async def test_a_consumer_never_makes_a_deleted_topic_again() -> None:
    clock = ManualClock()
    async with kafka_running(clock=clock) as (broker, client):
        await create(client)
        await fetch(client)
        await delete(client, "orders")
        clock.time_ms += 100 * DELETED_TOPIC_STAYS_MS
        assert codes((await ask(client, "orders")).topics) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert codes((await ask(client, "never-there")).topics) == [ErrorCode.NONE]
        producer = await connect(broker)
        assert codes((await ask(producer, "orders")).topics) == [ErrorCode.NONE]
        await producer.close()


async def test_topics_that_cannot_be_made_say_why() -> None:
    async with kafka_running() as (_, client):
        response = await ask(client, "__mine", "fine", "a" * 250)
        assert codes(response.topics) == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.NONE,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
        ]


async def test_a_topic_named_often_is_told_once() -> None:
    """Or a small request could ask for any amount of metadata."""
    async with kafka_running() as (_, client):
        await create(client)
        assert len((await ask(client, *["orders"] * 5_000)).topics) == 1


async def test_too_many_names_are_refused() -> None:
    async with kafka_running() as (_, client):
        response = await ask(client, *map(str, range(10_001)), version=13)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.topics == []
