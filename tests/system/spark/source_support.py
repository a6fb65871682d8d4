"""What the tests of the source share: a broker that can lose messages on purpose, and readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Unpack

from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

import penstock
import penstock.testing
from penstock.client.blocking.client import BlockingClient
from penstock.spark.cluster import close_clients
from penstock.testing.in_process import BrokerSettings

PATIENCE_S = 60


class Topics:
    """A broker's topics, in the test's hands."""

    def __init__(self, address: str, mq: BlockingClient) -> None:
        self.address = address
        self.mq = mq
        self.admin = mq.admin

    def fill(self, topic: str, count: int, partition: int = 0, first: int = 0) -> None:
        """So many messages more; the value is their number, which begins at `first`."""
        with self.mq.producer() as producer:
            for number in range(first, first + count):
                producer.send(topic, b"%d" % number, partition=partition)

    def delete_before(self, topic: str, offset: int, partition: int = 0) -> None:
        """By a real Kafka client: the native protocol has no such call."""
        admin = AdminClient({"bootstrap.servers": self.address})
        (deletion,) = admin.delete_records([KafkaPartition(topic, partition, offset)]).values()
        deletion.result(PATIENCE_S)

    def expire(self, topic: str, offset: int) -> None:
        """Have retention by size remove everything before about this offset."""
        self.admin.alter_topic(topic, {"retention_bytes": "1"})
        until(lambda: self.admin.find_offset(topic, 0, "earliest") >= offset)


@contextmanager
def broker_topics(**settings: Unpack[BrokerSettings]) -> Iterator[Topics]:
    given: BrokerSettings = {"retention_check_ms": 50, **settings}
    with penstock.testing.broker(**given) as address:
        with penstock.connect_blocking(address) as mq:
            yield Topics(address, mq)
        # Those of readers that the test made in its own process.
        close_clients()


def until(reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline_s, "it does not come to that"
        time.sleep(0.01)
