"""A topic written by one client is read by every other, bytes equal: all codecs, and messages of
every shape that the writer can express (R-NET-5)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.table import NAMES, Clients
from tests.system.kafka.messages import Message, Record, assert_same, assert_sent, of_every_shape


class Library:
    """The topics, one per writer and codec, written when they are first asked for."""

    def __init__(
        self, clients: Clients, create_topic: CreateTopic, new_name: Callable[[str], str]
    ) -> None:
        self._clients = clients
        self._create_topic = create_topic
        self._new_name = new_name
        self._topics: dict[str, dict[str, str]] = {}
        self._references: dict[str, dict[str, list[Record]]] = {}

    def topics(self, writer: str) -> dict[str, str]:
        """By codec."""
        if writer not in self._topics:
            driver = self._clients[writer]
            topics = {codec: self._new_name(f"{writer}-{codec}") for codec in driver.codecs}
            for codec, topic in topics.items():
                self._create_topic(topic)
                driver.produce(topic, self.messages(writer), codec=codec)
            self._topics[writer] = topics
        return self._topics[writer]

    def messages(self, writer: str) -> list[Message]:
        return list(filter(self._clients[writer].can_send, of_every_shape()))

    def reference(self, writer: str) -> dict[str, list[Record]]:
        """What librdkafka reads, by topic, checked against what was sent."""
        if writer not in self._references:
            sent = self.messages(writer)
            counts = dict.fromkeys(self.topics(writer).values(), len(sent))
            found = self._clients["confluent-kafka"].consume(counts)
            for topic, records in found.items():
                assert_sent(records, sent, topic)
            self._references[writer] = found
        return self._references[writer]


@pytest.fixture(scope="module")
def library(clients: Clients, create_topic: CreateTopic, new_name: Callable[[str], str]) -> Library:
    return Library(clients, create_topic, new_name)


@pytest.mark.parametrize("writer", NAMES)
@pytest.mark.parametrize("reader", NAMES)
def test_what_one_client_writes_every_other_reads(
    library: Library, clients: Clients, writer: str, reader: str
) -> None:
    expected = library.reference(writer)
    driver = clients[reader]
    legible = {
        topic: len(expected[topic])
        for codec, topic in library.topics(writer).items()
        if codec in driver.codecs
    }
    found = driver.consume(legible)
    for topic in legible:
        assert_same(found[topic], list(map(driver.shows, expected[topic])), f"{reader} of {topic}")
