"""A topic that is deleted while clients use it is gone, and stays gone.

Apache Kafka makes it again at the next question of a consumer that may create topics: these are
tests of what its users wish for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import warnings

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import UnknownTopicOrPartitionError
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from tests.system.kafka.conftest import CreateTopic, partition_count
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.members import Team, Variant
from tests.system.kafka.messages import numbered
from tests.system.kafka.peer import IS_KAFKA

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer

pytestmark = pytest.mark.skipif(IS_KAFKA, reason="Kafka makes the topic again")

# Clients look for a topic that is gone several times in this time.
LOOKING_S = 1.5


def delete(admin: AdminClient, topic: str) -> None:
    admin.delete_topics([topic])[topic].result(PATIENCE_S)


def assert_stays_gone(admin: AdminClient, topic: str) -> None:
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics


def test_librdkafkas_consumer_does_not_make_it_again(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic, clients: Clients, topic: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(3)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"readers of {topic}",
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": True,
            "topic.metadata.refresh.interval.ms": 200,
        }
    )
    try:
        consumer.subscribe([topic])
        until(lambda: (found := consumer.poll(1.0)) is not None and not found.error(), "a message")
        delete(admin, topic)
        stops_at = time.monotonic() + LOOKING_S
        while time.monotonic() < stops_at:
            consumer.poll(0.1)
        assert_stays_gone(admin, topic)
        create_topic(topic)  # who wants it has it at once
        assert partition_count(admin, topic) == 1
    finally:
        consumer.close()


async def test_aiokafkas_consumer_does_not_make_it_again(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic, clients: Clients, topic: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(3)))
    async with AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        metadata_max_age_ms=200,
    ) as consumer:
        await consumer.getone()
        await asyncio.to_thread(delete, admin, topic)
        stops_at = time.monotonic() + LOOKING_S
        while time.monotonic() < stops_at:
            with contextlib.suppress(UnknownTopicOrPartitionError):
                await consumer.getmany(timeout_ms=100)
        await asyncio.to_thread(assert_stays_gone, admin, topic)


def test_kafka_pythons_consumer_does_not_make_it_again(
    bootstrap: str, admin: AdminClient, create_topic: CreateTopic, clients: Clients, topic: str
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(3)))
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        metadata_max_age_ms=200,
    )
    try:
        until(lambda: bool(consumer.poll(timeout_ms=500)), "a message")
        delete(admin, topic)
        stops_at = time.monotonic() + LOOKING_S
        while time.monotonic() < stops_at:
            consumer.poll(timeout_ms=100)
        assert_stays_gone(admin, topic)
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["range", "consumer"])
def test_javas_consumer_does_not_make_it_again(
    bootstrap: str,
    admin: AdminClient,
    create_topic: CreateTopic,
    clients: Clients,
    topic: str,
    group: str,
    protocol: str,
) -> None:
    """It may create topics unless it is told otherwise (allow.auto.create.topics)."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(3)))
    with Team(bootstrap, group, [topic], Variant(client="java", protocol=protocol)) as team:
        team.join("one")
        team.wait_until_read(3)
        delete(admin, topic)
        time.sleep(LOOKING_S)
        assert_stays_gone(admin, topic)
        create_topic(topic)
        clients["confluent-kafka"].produce(topic, numbered(range(3, 4)))
        team.wait_until_read(4)
