"""Administration with the clients of other languages: kafkajs, @platformatic/kafka and Java's
AdminClient each do one round of it, and are told the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import PATIENCE_S
from tests.system.kafka.drivers.remote import RemoteDriver
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import Message, numbered

START_MS = 1_700_000_000_000
# What only Java's client can ask for.
MORE: dict[str, dict[str, Any]] = {
    "java": {
        "committed_after": False,
        "described": {"partitions": [0, 1, 2], "leaders": 1, "internal": False},
        "latest_time": {"offset": 9, "timestamp_ms": START_MS + 9_000},
        "log_has_bytes": True,
        "low": 3,
        "producers": 1,
        "retention_source": "DYNAMIC_TOPIC_CONFIG",
    }
}


@pytest.fixture(scope="module")
def joined(
    bootstrap: str, create_topic: CreateTopic, clients: Clients, new_name: Callable[[str], str]
) -> Iterator[str]:
    """A group with one member."""
    topic, group = new_name("topic"), new_name("group")
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(1)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": "reader",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    assert consumer.poll(PATIENCE_S) is not None
    yield group
    consumer.close()


@pytest.mark.parametrize("client", ["kafkajs", "platformatic", "java"])
def test_a_round_of_administration(
    bootstrap: str, clients: Clients, joined: str, topic: str, group: str, client: str
) -> None:
    driver = clients[client]
    assert isinstance(driver, RemoteDriver)
    messages = [
        Message(key=None, value=b"%d" % number, timestamp_ms=START_MS + number * 1_000)
        for number in range(10)
    ]
    told = driver.administer(topic, messages, group=group, joined=joined)
    told["joined"]["state"] = told["joined"]["state"].lower()
    assert told == {
        "created": {"partitions": 2, "retention_ms": "-1"},
        "at_time": 4,
        "earliest": 3,
        "latest": 10,
        "joined": {"state": "stable", "clients": ["reader"]},
        "committed": 5,
        "listed": [True, True],
        "listed_after": False,
        "cluster": {"brokers": [bootstrap], "named": True},
        "topic_after": False,
        **MORE.get(client, {}),
    }
