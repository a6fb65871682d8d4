"""Producing with every client: acknowledgements, idempotence, topics that appear when they are
used, their names, and what a broker refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.system.kafka.conftest import CreateTopic, partition_count
from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.drivers.kafka_python import KafkaPythonDriver
from tests.system.kafka.drivers.table import NAMES, Clients
from tests.system.kafka.messages import Message, assert_sent, numbered
from tests.system.kafka.peer import IS_KAFKA

MESSAGES = numbered(range(10))


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_acknowledgement(
    clients: Clients, create_topic: CreateTopic, topic: str, name: str, acks: str
) -> None:
    create_topic(topic)
    # The first is acknowledged: a topic so new may refuse messages for a moment, and without an
    # acknowledgement nobody would send them again.
    clients[name].produce(topic, MESSAGES[:1])
    clients[name].produce(topic, MESSAGES[1:], acks=acks)
    found = clients["confluent-kafka"].consume({topic: len(MESSAGES)})[topic]
    assert_sent(found, MESSAGES, topic)


@pytest.mark.parametrize("name", NAMES)
def test_idempotent_producers(
    clients: Clients, create_topic: CreateTopic, topic: str, name: str
) -> None:
    create_topic(topic)
    clients[name].produce(topic, MESSAGES[:5], idempotent=True)
    clients[name].produce(topic, MESSAGES[5:], idempotent=True, codec="gzip")
    found = clients["confluent-kafka"].consume({topic: len(MESSAGES)})[topic]
    assert_sent(found, MESSAGES, topic)


@pytest.mark.parametrize("name", NAMES)
def test_a_topic_appears_when_it_is_first_written_to(
    clients: Clients, admin: AdminClient, topic: str, name: str
) -> None:
    clients[name].produce(topic, MESSAGES[:1])
    assert partition_count(admin, topic) == 1


@pytest.mark.parametrize("topic_name", ["UPPER.and_lower-0123456789", "n" * 249, "..."])
def test_every_legal_name_can_be_used(clients: Clients, topic_name: str) -> None:
    clients["confluent-kafka"].produce(topic_name, MESSAGES[:1])
    found = clients["aiokafka"].consume({topic_name: 1})[topic_name]
    assert_sent(found, MESSAGES[:1], topic_name)


@pytest.mark.parametrize("topic_name", ["naïve", "日本", "a b", "a/b", "n" * 250, "", ".", ".."])
def test_other_names_are_refused(admin: AdminClient, topic_name: str) -> None:
    refused = create_error(admin, NewTopic(topic_name, 1, 1))
    assert refused.code() == KafkaError.TOPIC_EXCEPTION


@pytest.mark.parametrize("client", ["confluent-kafka", "aiokafka", "kafka-python"])
def test_a_message_that_is_too_large_is_refused(
    bootstrap: str, clients: Clients, create_topic: CreateTopic, topic: str, client: str
) -> None:
    """The client may send it; the topic's limit is the broker's business."""
    create_topic(topic, max_message_bytes="100000")
    too_large = bytes(200_000)
    if client == "confluent-kafka":
        error = delivery_error(Producer({"bootstrap.servers": bootstrap}), topic, too_large)
        assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
    elif client == "aiokafka":
        with pytest.raises(MessageSizeTooLargeError):
            asyncio.run(send_with_aiokafka(bootstrap, topic, too_large))
    else:
        with pytest.raises(Exception, match="MessageSizeTooLarge"):
            KafkaPythonDriver(bootstrap).produce(topic, [Message(key=None, value=too_large)])
    clients[client].produce(topic, MESSAGES[:1])  # and smaller ones are not
    assert_sent(clients[client].consume({topic: 1})[topic], MESSAGES[:1], topic)


def test_the_brokers_own_time_where_the_topic_asks_for_it(
    clients: Clients, create_topic: CreateTopic, topic: str
) -> None:
    create_topic(topic, message_timestamp_type="LogAppendTime")
    long_ago = Message(key=None, value=b"value", timestamp_ms=1_000_000_000_000)
    clients["confluent-kafka"].produce(topic, [long_ago])
    for name in ("confluent-kafka", "aiokafka", "kcat"):
        [found] = clients[name].consume({topic: 1})[topic]
        assert found.timestamp_ms > 1_700_000_000_000, name


def test_transactions_are_refused_in_a_sentence(bootstrap: str) -> None:
    """At once and for good, where Kafka has them and we do not yet: a client that went on trying
    would leave its user in the dark."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mover"})
    if IS_KAFKA:
        producer.init_transactions(PATIENCE_S)
        return
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_S)
    assert not refused.value.args[0].retriable(), refused.value


def test_internal_topics_cannot_be_written_to(bootstrap: str, clients: Clients) -> None:
    """Kafka does not let clients change what its own consumer offsets say; nor do we."""
    clients["confluent-kafka"].produce("read-by-a-group", MESSAGES[:1])
    clients["confluent-kafka"].consume_in_group("read-by-a-group", "internal-topics", 1)
    producer = Producer({"bootstrap.servers": bootstrap})
    internal = "__consumer_offsets" if IS_KAFKA else "__offsets"
    error = delivery_error(producer, internal, b"{}")
    assert error.code() == KafkaError.TOPIC_EXCEPTION


def delivery_error(producer: Producer, topic: str, value: bytes) -> Any:
    """How the broker refused it."""
    errors: list[Any] = []
    producer.produce(topic, value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    [error] = errors
    assert error is not None, "it was accepted"
    return error


def create_error(admin: AdminClient, topic: NewTopic) -> Any:
    """How the broker refused it."""
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[topic.topic].result(PATIENCE_S)
    return refused.value.args[0]


async def send_with_aiokafka(bootstrap: str, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await producer.send_and_wait(topic, value)
