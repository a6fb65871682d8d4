"""Topics: made, deleted, given partitions, described page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.coordination.group.records import OFFSETS_TOPIC
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.protocol.kafka.messages.metadata import MetadataRequest
from penstock.protocol.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.kafka.schema import ZERO_UUID
from tests.kit.broker.kafka_client import KafkaClient, kafka_running
from tests.kit.broker.kafka_talk import codes, create, topic_id


async def make(
    client: KafkaClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> Any:
    request = CreateTopicsRequest(topics, 1000, validate_only)
    return (await client.call(apis.CREATE_TOPICS, version, request)).topics


async def public(client: KafkaClient) -> dict[str, int]:
    """How many partitions each topic has."""
    response = await client.call(apis.METADATA, 12, MetadataRequest(None))
    return {topic.name: len(topic.partitions) for topic in response.topics if not topic.is_internal}


# --- create ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_made_and_described(version: int) -> None:
    """R-CORE-5."""
    async with kafka_running() as (_, client):
        configs = [CreatableTopicConfig("retention.ms", "1234")]
        wanted = CreatableTopic("orders", 3, 1, configs=configs)
        (made,) = await make(client, wanted, version=version)
        assert (made.name, made.error_code, made.error_message) == ("orders", 0, None)
        assert await public(client) == {"orders": 3}
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            described = {setting.name: setting for setting in made.configs}
            assert described["retention.ms"].value == "1234"
            assert described["retention.ms"].config_source == 1, "set for this topic"
        if version >= 7:
            assert made.topic_id == await topic_id(client)


async def test_defaults_are_the_brokers() -> None:
    async with kafka_running(partitions_default=4) as (_, client):
        (made,) = await make(client, CreatableTopic("orders", -1, -1))
        assert (made.num_partitions, made.replication_factor) == (4, 1)


def assigned(*brokers: Sequence[int], first: int = 0) -> list[CreatableReplicaAssignment]:
    return [CreatableReplicaAssignment(number, ids) for number, ids in enumerate(brokers, first)]


REFUSED = [
    (CreatableTopic("", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("no good", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("..", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("../etc", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("a" * 250, 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("__mine", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (CreatableTopic("there", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    (CreatableTopic("new", 0, 1), ErrorCode.INVALID_PARTITIONS),
    (CreatableTopic("new", -2, 1), ErrorCode.INVALID_PARTITIONS),
    (CreatableTopic("new", 11, 1), ErrorCode.INVALID_PARTITIONS),
    (CreatableTopic("new", 2**31 - 1, 1), ErrorCode.INVALID_PARTITIONS),
    (CreatableTopic("new", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (CreatableTopic("new", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
    (CreatableTopic("new", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
    (CreatableTopic("new", 1, -1, assigned([1])), ErrorCode.INVALID_REQUEST),
    (CreatableTopic("new", -1, 1, assigned([1])), ErrorCode.INVALID_REQUEST),
    (CreatableTopic("new", -1, -1, assigned([9])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (CreatableTopic("new", -1, -1, assigned([])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (CreatableTopic("new", -1, -1, assigned([1, 1])), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (CreatableTopic("new", -1, -1, assigned([1], first=1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (
        CreatableTopic("new", 1, 1, configs=[CreatableTopicConfig("retention.ns", "1")]),
        ErrorCode.INVALID_CONFIG,
    ),
    (
        CreatableTopic("new", 1, 1, configs=[CreatableTopicConfig("retention.ms", "soon")]),
        ErrorCode.INVALID_CONFIG,
    ),
    (
        CreatableTopic("new", 1, 1, configs=[CreatableTopicConfig("retention.ms", None)]),
        ErrorCode.INVALID_CONFIG,
    ),
]


@pytest.mark.parametrize("validate_only", [False, True])
async def test_what_cannot_be_made_says_why(validate_only: bool) -> None:
    """R-CORE-4: each for itself, and the same where it would only be checked."""
    async with kafka_running(broker_id=1) as (_, client):
        await create(client, "there")
        for topic, code in REFUSED:
            good = CreatableTopic("good", 1, 1)
            refused, accepted = await make(client, topic, good, validate_only=True)
            if not validate_only:
                (refused,) = await make(client, topic)
            assert ErrorCode(refused.error_code) is code, topic
            assert refused.error_message
            assert (refused.topic_id, refused.num_partitions) == (ZERO_UUID, -1)
            assert accepted.error_code == ErrorCode.NONE
        assert await public(client) == {"there": 1}


async def test_a_check_tells_what_would_be_made() -> None:
    async with kafka_running(broker_id=1, partitions_default=4) as (_, client):
        for topic, count in (
            (CreatableTopic("new", 2, 1), 2),
            (CreatableTopic("new", -1, -1), 4),
            (CreatableTopic("new", -1, -1, assigned([1], [1], [1])), 3),
        ):
            (checked,) = await make(client, topic, validate_only=True)
            assert (checked.error_code, checked.num_partitions) == (0, count)
            assert checked.replication_factor == 1
        assert await public(client) == {}
        (made,) = await make(client, CreatableTopic("new", -1, -1, assigned([1], [1])))
        assert (made.error_code, made.num_partitions) == (ErrorCode.NONE, 2)


async def test_a_name_given_twice_makes_nothing() -> None:
    """As in Kafka: INVALID_REQUEST for each."""
    async with kafka_running() as (_, client):
        topics = [CreatableTopic(name, 1, 1) for name in ("twice", "once", "twice")]
        results = await make(client, *topics)
        assert codes(results) == [ErrorCode.INVALID_REQUEST, 0, ErrorCode.INVALID_REQUEST]
        assert await public(client) == {"once": 1}


# --- delete ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 7))
async def test_a_topic_is_deleted(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client)
        await create(client, "others")
        request = DeleteTopicsRequest([DeleteTopicState("orders")], ["orders"])
        (gone,) = (await client.call(apis.DELETE_TOPICS, version, request)).responses
        assert (gone.name, gone.error_code) == ("orders", ErrorCode.NONE)
        assert await public(client) == {"others": 1}
        (again,) = (await client.call(apis.DELETE_TOPICS, version, request)).responses
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_topic_is_deleted_by_its_id() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        known = await topic_id(client)
        for code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID):
            request = DeleteTopicsRequest([DeleteTopicState(None, known)])
            (gone,) = (await client.call(apis.DELETE_TOPICS, 6, request)).responses
            assert (gone.error_code, gone.topic_id) == (code, known)
            assert gone.name == ("orders" if code == ErrorCode.NONE else None)


async def test_deletions_that_make_no_sense() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        offsets = OffsetCommitRequestTopic("orders", partitions=[OffsetCommitRequestPartition()])
        await client.call(apis.OFFSET_COMMIT, 8, OffsetCommitRequest("g", topics=[offsets]))
        known = await topic_id(client)
        for state, code in (
            (DeleteTopicState(None, ZERO_UUID), ErrorCode.INVALID_REQUEST),
            (DeleteTopicState("orders", known), ErrorCode.INVALID_REQUEST),
            (DeleteTopicState("", ZERO_UUID), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            (DeleteTopicState(OFFSETS_TOPIC), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ):
            request = DeleteTopicsRequest([state])
            response = await client.call(apis.DELETE_TOPICS, 6, request)
            assert codes(response.responses) == [code]
            assert response.responses[0].error_message
        for twice in (DeleteTopicState("orders"), DeleteTopicState(None, known)):
            request = DeleteTopicsRequest([twice, twice])
            response = await client.call(apis.DELETE_TOPICS, 6, request)
            assert codes(response.responses) == [ErrorCode.INVALID_REQUEST] * 2
        assert await public(client) == {"orders": 1}


# --- partitions --------------------------------------------------------------------------------


async def grow(
    client: KafkaClient,
    *topics: CreatePartitionsTopic,
    version: int = 3,
    validate_only: bool = False,
) -> Any:
    request = CreatePartitionsRequest(topics, 1000, validate_only)
    return (await client.call(apis.CREATE_PARTITIONS, version, request)).results


@pytest.mark.parametrize("version", range(4))
async def test_a_topic_gets_more_partitions(version: int) -> None:
    async with kafka_running(broker_id=1) as (_, client):
        await create(client)
        wanted = CreatePartitionsTopic("orders", 3, None)
        for validate_only, count in ((True, 1), (False, 3)):
            (grown,) = await grow(client, wanted, version=version, validate_only=validate_only)
            assert (grown.error_code, grown.error_message) == (ErrorCode.NONE, None)
            assert await public(client) == {"orders": count}
        placed = [CreatePartitionsAssignment([1])]
        (grown,) = await grow(client, CreatePartitionsTopic("orders", 4, placed))
        assert grown.error_code == ErrorCode.NONE
        assert await public(client) == {"orders": 4}


@pytest.mark.parametrize(
    ("topic", "count", "brokers", "code"),
    [
        ("nothing", 5, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__offsets", 5, None, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", 2, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", -1, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 11, None, ErrorCode.INVALID_PARTITIONS),
        ("orders", 4, [[1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
@pytest.mark.parametrize("validate_only", [False, True])
async def test_partitions_that_cannot_be(
    topic: str, count: int, brokers: list[list[int]] | None, code: ErrorCode, validate_only: bool
) -> None:
    async with kafka_running(broker_id=1) as (_, client):
        await create(client, partitions=2)
        placed = None if brokers is None else [CreatePartitionsAssignment(ids) for ids in brokers]
        wanted = CreatePartitionsTopic(topic, count, placed)
        (refused,) = await grow(client, wanted, validate_only=validate_only)
        assert ErrorCode(refused.error_code) is code
        assert refused.error_message
        assert await public(client) == {"orders": 2}


async def test_a_topic_named_twice_gets_none() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        twice = CreatePartitionsTopic("orders", 2, None)
        assert codes(await grow(client, twice, twice)) == [ErrorCode.INVALID_REQUEST] * 2


# --- described page by page --------------------------------------------------------------------


async def page(
    client: KafkaClient, *names: str, limit: int = 2_000, cursor: Cursor | None = None
) -> Any:
    topics = [TopicRequest(name) for name in names]
    request = DescribeTopicPartitionsRequest(topics, limit, cursor)
    return await client.call(apis.DESCRIBE_TOPIC_PARTITIONS, 0, request)


def numbers(response: Any) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [part.partition_index for part in topic.partitions])
        for topic in response.topics
        if not topic.is_internal
    ]


async def test_named_topics_are_described() -> None:
    """KIP-966."""
    async with kafka_running(broker_id=1) as (_, client):
        await create(client, "b", 2)
        await create(client, "a")
        response = await page(client, "b", "a", "nothing", "b")
        assert numbers(response) == [("a", [0]), ("b", [0, 1]), ("nothing", [])]
        assert codes(response.topics) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        part = response.topics[0].partitions[0]
        assert (part.leader_id, part.leader_epoch) == (1, 0)
        assert (list(part.replica_nodes), list(part.isr_nodes)) == ([1], [1])
        assert response.topics[0].topic_id == await topic_id(client, "a")
        assert response.next_cursor is None


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 7, 0, -1])
async def test_pages_follow_one_another(limit: int) -> None:
    async with kafka_running() as (_, client):
        for name, count in (("a", 1), ("b", 3), ("c", 2)):
            await create(client, name, count)
        names = ("a", "b", "c")
        found: list[tuple[str, int]] = []
        cursor = None
        for _ in range(10):
            response = await page(client, *names, limit=limit, cursor=cursor)
            described = [(name, part) for name, parts in numbers(response) for part in parts]
            assert len(described) <= max(limit, 1)
            found += described
            cursor = response.next_cursor
            if cursor is None:
                break
        assert found == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]


async def test_all_topics_from_a_cursor_on() -> None:
    async with kafka_running() as (_, client):
        for name in ("a", "b", "d"):
            await create(client, name)
        everything = numbers(await page(client))
        assert everything == [("a", [0]), ("b", [0]), ("d", [0])]
        assert numbers(await page(client, cursor=Cursor("c", 5))) == [("d", [0])]
        assert numbers(await page(client, cursor=Cursor("d", 5))) == [("d", [])]
        assert numbers(await page(client, cursor=Cursor("e", 0))) == []


async def test_cursors_that_make_no_sense() -> None:
    """As in Kafka: a page begins at a partition of a topic that was asked for."""
    async with kafka_running() as (_, client):
        await create(client, "a")
        for cursor in (Cursor("a", -1), Cursor("b", 0)):
            response = await page(client, "a", cursor=cursor)
            assert codes(response.topics) == [ErrorCode.INVALID_REQUEST]
            assert response.next_cursor is None
