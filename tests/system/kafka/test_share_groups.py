"""Share groups (KIP-932) with clients that have them: consumers of librdkafka and of Java are
members, and the tool that comes with Kafka sees them."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, ShareConsumer

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.drivers.remote import JavaDriver
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import numbered
from tests.system.kafka.provide import java
from tests.system.kafka.share_members import LibrdkafkaMember

GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"

ShareGroups = Callable[..., str]


@pytest.fixture(scope="module")
def share_groups(bootstrap: str) -> Iterator[ShareGroups]:
    """kafka-share-groups.sh, told where the broker is."""
    driver = JavaDriver(bootstrap)
    yield lambda *arguments: driver.tool(GROUPS, "--bootstrap-server", bootstrap, *arguments)
    driver.close()


@contextmanager
def member(bootstrap: str, group: str, topic: str) -> Iterator[None]:
    """A consumer that is in the group until the end."""
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.subscribe([topic])
    leaving = threading.Event()

    def poll() -> None:
        while not leaving.is_set():
            consumer.poll(0.1)

    polling = threading.Thread(target=poll)
    polling.start()
    try:
        yield
    finally:
        leaving.set()
        polling.join()
        consumer.close()


def members(share_groups: ShareGroups, group: str) -> list[list[str]]:
    """group, member, host, client, number of partitions, partitions"""
    described = share_groups("--describe", "--members", "--group", group)
    return [line.split() for line in described.splitlines() if line.startswith(f"{group} ")]


def shares(share_groups: ShareGroups, group: str) -> list[list[str]]:
    """The partitions of each member, of their one topic; of one that has none yet, nothing."""
    told = ("".join(one[5:]).rpartition(":")[2] for one in members(share_groups, group))
    return [partitions.split(",") for partitions in told]


def test_members_are_seen_by_kafkas_own_tool(
    bootstrap: str, share_groups: ShareGroups, create_topic: CreateTopic, topic: str, group: str
) -> None:
    """R-DEL-3: they share the partitions, and the group goes when they have left it."""
    create_topic(topic, 4)

    def is_shared_by(count: int) -> bool:
        found = shares(share_groups, group)
        numbers = sorted(number for one in found for number in one)
        return {len(one) for one in found} == {4 // count} and numbers == ["0", "1", "2", "3"]

    with member(bootstrap, group, topic):
        until(lambda: is_shared_by(1), "the first has all of it")
        with member(bootstrap, group, topic):
            until(lambda: is_shared_by(2), "the second has half of it")
            described = share_groups("--describe", "--state", "--group", group)
            assert re.search(rf"{group}\s+\S+\s+\(\d+\)\s+Stable\s+2", described), described
    assert group in share_groups("--list").split()
    assert re.search(r"Empty\s+0", share_groups("--describe", "--state", "--group", group))
    share_groups("--delete", "--group", group)
    assert group not in share_groups("--list").split()


def test_where_a_group_stands_is_changed_by_kafkas_own_tool(
    bootstrap: str,
    clients: Clients,
    share_groups: ShareGroups,
    create_topic: CreateTopic,
    topic: str,
    group: str,
) -> None:
    """R-DEL-10: an operator lets it go on from elsewhere, and begin anew."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    with member(bootstrap, group, topic):
        until(lambda: len(members(share_groups, group)) == 1, "it is there")
    which = ("--group", group, "--topic", topic, "--execute")
    share_groups("--reset-offsets", "--to-earliest", *which)
    described = share_groups("--describe", "--group", group)
    # group, topic, partition, start, lag
    assert re.search(rf"{group}\s+{topic}\s+0\s+0\s+10", described), described
    share_groups("--reset-offsets", "--to-latest", *which)
    described = share_groups("--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+10\s+0", described), described
    share_groups("--delete-offsets", "--group", group, "--topic", topic)
    assert not re.search(rf"{topic}\s+0\s+10", share_groups("--describe", "--group", group))


def test_a_group_that_nobody_was_in_begins_where_kafkas_own_tool_says(
    bootstrap: str,
    clients: Clients,
    share_groups: ShareGroups,
    create_topic: CreateTopic,
    topic: str,
    group: str,
) -> None:
    """R-DEL-3: AlterShareGroupOffsets makes it."""
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    share_groups("--reset-offsets", "--to-latest", "--group", group, "--topic", topic, "--execute")
    assert group in share_groups("--list").split()
    described = share_groups("--describe", "--group", group)
    assert re.search(rf"{group}\s+{topic}\s+0\s+10\s+0", described), described
    clients["confluent-kafka"].produce(topic, numbered(range(10, 15)))
    with LibrdkafkaMember(bootstrap, group, topic) as first:
        until(lambda: len(first.got) >= 5, "what came since")
        assert [one.value for one in first.got] == ["10", "11", "12", "13", "14"]


def test_a_java_consumer_is_a_member(
    bootstrap: str, share_groups: ShareGroups, create_topic: CreateTopic, topic: str, group: str
) -> None:
    """R-DEL-3: beside one of librdkafka."""
    create_topic(topic, 2)
    where = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    program = java()
    with (
        member(bootstrap, group, topic),
        subprocess.Popen(program.with_arguments(CONSOLE_CONSUMER, *where)) as consumer,
    ):
        try:
            wanted = {"rdkafka", "console-share-consumer"}
            until(
                lambda: {one[3] for one in members(share_groups, group)} == wanted,
                "both are there",
            )
        finally:
            consumer.kill()


def test_a_name_is_one_kind_of_group(
    bootstrap: str, share_groups: ShareGroups, create_topic: CreateTopic, topic: str, group: str
) -> None:
    create_topic(topic, 1)
    with member(bootstrap, group, topic):
        until(lambda: len(members(share_groups, group)) == 1, "it is there")
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0}
        consumer = Consumer(settings)
        consumer.subscribe([topic])

        def is_refused() -> bool:
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            return error is not None and error.code() == KafkaError.INCONSISTENT_GROUP_PROTOCOL

        until(is_refused, "it is told that the group is another one's")
        consumer.close()
