"""The command line tools that come with Apache Kafka, as people run them: kafka-topics,
kafka-configs, kafka-consumer-groups, the console clients, the performance tests and others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.system.kafka.conftest import CreateTopic, partition_count
from tests.system.kafka.drivers.driver import until
from tests.system.kafka.drivers.remote import JavaDriver
from tests.system.kafka.drivers.table import Clients
from tests.system.kafka.messages import numbered

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


class Tools:
    """Each tool, told where the broker is."""

    def __init__(self, driver: JavaDriver, bootstrap: str) -> None:
        self._driver = driver
        self._bootstrap = bootstrap

    def __call__(self, name: str, *arguments: str, given: bytes = b"") -> str:
        where = ("--bootstrap-server", self._bootstrap)
        return self._driver.tool(name, *where, *arguments, given=given)


@pytest.fixture(scope="module")
def java(bootstrap: str) -> Iterator[Tools]:
    driver = JavaDriver(bootstrap)
    yield Tools(driver, bootstrap)
    driver.close()


def test_topics(java: Tools, admin: AdminClient, topic: str) -> None:
    name = "org.apache.kafka.tools.TopicCommand"
    java(name, "--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=60000")
    until(lambda: topic in java(name, "--list").split(), "the topic is known")
    java(name, "--alter", "--topic", topic, "--partitions", "4")
    until(lambda: partition_count(admin, topic) == 4, "the topic has grown")
    described = java(name, "--describe", "--topic", topic)
    assert "PartitionCount: 4" in described
    assert "retention.ms=60000" in described
    assert len(re.findall(r"Partition: \d+\s+Leader: \d+", described)) == 4
    java(name, "--delete", "--topic", topic)


def test_configs(java: Tools, create_topic: CreateTopic, topic: str) -> None:
    create_topic(topic)
    name = "kafka.admin.ConfigCommand"
    entity = ("--entity-type", "topics", "--entity-name", topic)
    java(name, *entity, "--alter", "--add-config", "retention.ms=123456,cleanup.policy=compact")
    described = java(name, *entity, "--describe")
    assert "retention.ms=123456" in described
    assert "cleanup.policy=compact" in described
    java(name, *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms=123456" not in java(name, *entity, "--describe")
    assert "max.message.bytes=" in java(name, *entity, "--describe", "--all")


def test_console_producer_and_consumer(java: Tools, clients: Clients, topic: str) -> None:
    lines = b"".join(b"key%d:value%d\n" % (number, number) for number in range(5))
    settings = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    java("org.apache.kafka.tools.ConsoleProducer", "--topic", topic, *settings, given=lines)
    printed = java(
        CONSOLE_CONSUMER,
        *("--topic", topic, "--from-beginning", "--max-messages", "5"),
        *("--formatter-property", "print.key=true", "--formatter-property", "key.separator=:"),
    )
    for line in lines.decode().split():
        assert line in printed
    found = clients["confluent-kafka"].consume({topic: 5})[topic]
    assert {(record.key, record.value) for record in found} == {
        (b"key%d" % number, b"value%d" % number) for number in range(5)
    }


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_consumer_groups(
    java: Tools,
    clients: Clients,
    create_topic: CreateTopic,
    topic: str,
    group: str,
    protocol: str,
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    reading = ("--topic", topic, "--from-beginning", "--group", group)
    settings = ("--command-property", f"group.protocol={protocol}")
    java(CONSOLE_CONSUMER, *reading, "--max-messages", "10", *settings)
    assert group in java(GROUPS, "--list")
    described = java(GROUPS, "--describe", "--group", group).split("\n")
    [line] = [line for line in described if topic in line]
    # group, topic, partition, committed, end, lag
    assert line.split()[:6] == [group, topic, "0", "10", "10", "0"]
    assert "Empty" in java(GROUPS, "--describe", "--group", group, "--state")
    back = ("--reset-offsets", "--to-offset", "4", "--topic", topic, "--execute")
    assert re.search(rf"{topic}\s+0\s+4\b", java(GROUPS, "--group", group, *back))
    printed = java(CONSOLE_CONSUMER, "--topic", topic, "--group", group, "--max-messages", "6")
    assert re.findall(r"^\d$", printed, re.MULTILINE) == ["4", "5", "6", "7", "8", "9"]
    java(GROUPS, "--delete-offsets", "--group", group, "--topic", topic)
    java(GROUPS, "--delete", "--group", group)
    assert group not in java(GROUPS, "--list").split()


def test_offsets_and_deleted_records(
    java: Tools, clients: Clients, create_topic: CreateTopic, topic: str, tmp_path: Path
) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": 4}], "version": 1}
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps(wanted))
    deleted = java("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", str(file))
    assert "low_watermark: 4" in deleted
    for time, offset in (("earliest", 4), ("latest", 10), ("max-timestamp", 9)):
        offsets = java("org.apache.kafka.tools.GetOffsetShell", "--topic", topic, "--time", time)
        assert f"{topic}:0:" in offsets
        if time != "max-timestamp":  # which of those in one millisecond is the broker's choice
            assert f"{topic}:0:{offset}" in offsets


def test_log_folders(java: Tools, clients: Clients, create_topic: CreateTopic, topic: str) -> None:
    create_topic(topic)
    clients["confluent-kafka"].produce(topic, numbered(range(10)))
    tool = "org.apache.kafka.tools.LogDirsCommand"
    printed = java(tool, "--describe", "--topic-list", topic)
    described = json.loads(printed[printed.index("{") :])
    [folder] = described["brokers"][0]["logDirs"]
    [partition] = folder["partitions"]
    assert partition["partition"] == f"{topic}-0"
    assert partition["size"] > 0


def test_versions_are_told(java: Tools) -> None:
    printed = java("org.apache.kafka.tools.BrokerApiVersionsCommand")
    assert re.search(r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", printed)
    assert re.search(r"ConsumerGroupHeartbeat\(68\): ", printed)


def test_performance_tests(java: Tools, create_topic: CreateTopic, topic: str) -> None:
    create_topic(topic)
    produced = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--command-property", "compression.type=lz4"),
    )
    assert "20000 records sent" in produced
    consumed = java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--topic", topic, "--num-records", "20000", "--timeout", "60000"),
    )
    assert re.search(r", 20000, ", consumed)
