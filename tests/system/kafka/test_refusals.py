"""What people meet at a broker that does not create topics by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError
from confluent_kafka import Consumer, KafkaError, Producer

from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.peer import Peer, new_peer


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder = tmp_path_factory.mktemp("peer") / "data"
    with new_peer(folder, auto_create=False) as running:
        yield running


def test_an_unknown_topic_cannot_be_written_to(bootstrap: str, topic: str) -> None:
    errors = []
    producer = Producer({"bootstrap.servers": bootstrap, "topic.metadata.propagation.max.ms": 500})
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert errors[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)

    async def send() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=2_000) as other:
            await other.send_and_wait(topic, b"value")

    with pytest.raises((UnknownTopicOrPartitionError, KafkaTimeoutError)):
        asyncio.run(send())


def test_an_unknown_topic_cannot_be_read(bootstrap: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 0})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert topic not in consumer.list_topics(timeout=PATIENCE_S).topics
    finally:
        consumer.close()
