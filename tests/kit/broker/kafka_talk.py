"""What tests of the Kafka side say most: make a topic, produce, fetch. Not a test itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.kafka.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from penstock.protocol.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from penstock.records import decode_messages
from tests.kit.broker.kafka_client import KafkaClient
from tests.kit.broker.running import batch

# The last versions in which topics go by their names.
PRODUCE_BY_NAME = 12
FETCH_BY_NAME = 12
LONG_MS = 60_000


async def settled() -> None:
    """Let the loop run until what was sent has been handled."""
    for _ in range(20):
        await asyncio.sleep(0)


async def create(
    client: KafkaClient, name: str = "orders", partitions: int = 1, **settings: str
) -> None:
    """Settings under Kafka's names, with `_` for every dot."""
    configs = [CreatableTopicConfig(key.replace("_", "."), settings[key]) for key in settings]
    topic = CreatableTopic(name, partitions, 1, configs=configs)
    response = await client.call(apis.CREATE_TOPICS, 7, CreateTopicsRequest([topic]))
    assert response.topics[0].error_code == ErrorCode.NONE, response.topics[0].error_message


async def topic_id(client: KafkaClient, name: str = "orders") -> bytes:
    request = MetadataRequest([MetadataRequestTopic(name=name)])
    response = await client.call(apis.METADATA, 12, request)
    found = response.topics[0].topic_id
    assert isinstance(found, bytes)
    return found


def produce_request(
    *batches: bytes | bytearray | None,
    topic: str = "orders",
    acks: int = -1,
    first_partition: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One batch for each of the topic's partitions, from the first one on."""
    data = [
        PartitionProduceData(number, None if payload is None else memoryview(payload))
        for number, payload in enumerate(batches, first_partition)
    ]
    topics = [TopicProduceData(topic, partition_data=data)]
    return ProduceRequest(transactional_id, acks, 1_000, topics)


async def produce(
    client: KafkaClient, *batches: bytes | bytearray | None, **how: Any
) -> PartitionProduceResponse:
    """The answer for the first of the partitions."""
    response = await client.call(apis.PRODUCE, PRODUCE_BY_NAME, produce_request(*batches, **how))
    first = response.responses[0].partition_responses[0]
    assert isinstance(first, PartitionProduceResponse)
    return first


async def fill(
    client: KafkaClient, *values: bytes, topic: str = "orders", partition: int = 0
) -> None:
    """A batch for each of the values."""
    for value in values:
        answer = await produce(client, batch([value]), topic=topic, first_partition=partition)
        assert answer.error_code == ErrorCode.NONE, answer.error_message


def fetch_request(
    offsets: Sequence[int] | dict[int, int] = (0,), topic: str | bytes = "orders", **how: Any
) -> FetchRequest:
    """From these offsets of the topic's partitions; `how` may say more, of partitions too."""
    numbered = offsets if isinstance(offsets, dict) else dict(enumerate(offsets))
    partition_max_bytes = how.pop("partition_max_bytes", 1 << 20)
    leader_epoch = how.pop("current_leader_epoch", -1)
    partitions = [
        FetchPartition(number, leader_epoch, offset, partition_max_bytes=partition_max_bytes)
        for number, offset in numbered.items()
    ]
    if isinstance(topic, bytes):
        topics = [FetchTopic(topic_id=topic, partitions=partitions)]
    else:
        topics = [FetchTopic(topic, partitions=partitions)]
    return FetchRequest(topics=topics if partitions else [], **({"min_bytes": 1} | how))


def parts_of(response: Any) -> dict[int, PartitionData]:
    """By partition, of an answer about one topic."""
    return {part.partition_index: part for topic in response.responses for part in topic.partitions}


def values_of(part: PartitionData, offset: int = 0) -> list[bytes | None]:
    assert isinstance(part.records, memoryview)
    return [message.value for message in decode_messages(part.records, "orders", 0, offset)]


async def fetch(
    client: KafkaClient,
    offsets: Sequence[int] | dict[int, int] = (0,),
    version: int = 12,
    **how: Any,
) -> dict[int, PartitionData]:
    """What each partition has."""
    response = await client.call(apis.FETCH, version, fetch_request(offsets, **how))
    return parts_of(response)


def codes(responses: Iterable[Any]) -> list[int]:
    return [response.error_code for response in responses]
