"""Settings of brokers that are changed while they run, with Kafka's tools and admin clients
(KIP-226, KIP-412): for one broker, for all of them, and the levels of its loggers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)

from tests.system.kafka.conftest import CreateTopic
from tests.system.kafka.drivers.driver import PATIENCE_S, until
from tests.system.kafka.drivers.remote import JavaDriver
from tests.system.kafka.peer import Peer

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.admin as kafka_python

HERE = "1"
CONFIG_TOOL = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def java(bootstrap: str) -> Iterator[JavaDriver]:
    driver = JavaDriver(bootstrap)
    yield driver
    driver.close()


def alter(admin: AdminClient, broker: str, **settings: str | None) -> None:
    """With `_` for every dot; None takes a setting back."""
    kind = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=kind[value is None])
        for name, value in settings.items()
    ]
    resource = ConfigResource(ResourceType.BROKER, broker, incremental_configs=entries)
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(PATIENCE_S)


def described(admin: AdminClient, broker: str) -> dict[str, Any]:
    [future] = admin.describe_configs([ConfigResource(ResourceType.BROKER, broker)]).values()
    found: dict[str, Any] = future.result(PATIENCE_S)
    return found


def source(admin: AdminClient, kind: ResourceType, name: str, setting: str) -> tuple[str, int]:
    [future] = admin.describe_configs([ConfigResource(kind, name)]).values()
    found = future.result(PATIENCE_S)[setting]
    return found.value, found.source


def test_the_largest_message_is_changed_and_counts_at_once(
    admin: AdminClient,
    java: JavaDriver,
    bootstrap: str,
    create_topic: CreateTopic,
    topic: str,
    peer: Peer,
) -> None:
    """For all brokers, then for this one, which goes before; it outlives the broker."""

    def all_brokers(*arguments: str) -> str:
        where = ("--bootstrap-server", bootstrap, "--entity-type", "brokers", "--entity-default")
        return java.tool(CONFIG_TOOL, *where, *arguments)

    create_topic(topic)
    broker, of_topic = ResourceType.BROKER, ResourceType.TOPIC
    static = source(admin, broker, HERE, "message.max.bytes")
    all_brokers("--alter", "--add-config", "message.max.bytes=3000")
    everywhere = ("3000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
    until(lambda: source(admin, broker, HERE, "message.max.bytes") == everywhere, "it is known")
    assert "message.max.bytes=3000" in all_brokers("--describe")
    assert source(admin, of_topic, topic, "max.message.bytes") == everywhere
    alter(admin, HERE, message_max_bytes="2000")
    here = ("2000", ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    until(lambda: source(admin, broker, HERE, "message.max.bytes") == here, "it is known")
    assert source(admin, of_topic, topic, "max.message.bytes") == here
    assert outcome(bootstrap, topic, 2_500) == KafkaError.MSG_SIZE_TOO_LARGE
    assert outcome(bootstrap, topic, 1_500) is None
    peer.kill()
    peer.start()
    until(lambda: source(admin, broker, HERE, "message.max.bytes") == here, "it is kept")
    assert outcome(bootstrap, topic, 2_500) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(admin, HERE, message_max_bytes=None)
    until(lambda: source(admin, broker, HERE, "message.max.bytes") == everywhere, "it is known")
    assert outcome(bootstrap, topic, 2_500) is None
    all_brokers("--alter", "--delete-config", "message.max.bytes")
    until(lambda: source(admin, broker, HERE, "message.max.bytes") == static, "it is known")
    assert "message.max.bytes" not in all_brokers("--describe")


def outcome(bootstrap: str, topic: str, size: int) -> int | None:
    """The code of the error with which a message of this size is refused."""
    errors: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(
        topic,
        bytes(size),
        on_delivery=lambda error, _: errors.append(None if error is None else error.code()),
    )
    producer.flush(PATIENCE_S)
    [code] = errors
    return code


@pytest.mark.parametrize("setting", ["log_dirs", "node_id", "listeners"])
def test_what_needs_a_restart_is_refused(admin: AdminClient, setting: str) -> None:
    with pytest.raises(KafkaException) as refused:
        alter(admin, HERE, **{setting: "7"})
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    assert "Cannot update these configs dynamically" in refused.value.args[0].str()


def test_a_value_that_makes_no_sense_is_refused(admin: AdminClient) -> None:
    with pytest.raises(KafkaException) as refused:
        alter(admin, HERE, log_retention_ms="soon")
    invalid = (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST)  # the latter is Kafka's
    assert refused.value.args[0].code() in invalid


def test_kafka_configs_changes_brokers(java: JavaDriver, bootstrap: str) -> None:
    def configs(*arguments: str) -> str:
        where = ("--bootstrap-server", bootstrap, "--entity-type", "brokers")
        return java.tool(CONFIG_TOOL, *where, *arguments)

    configs("--entity-default", "--alter", "--add-config", "log.retention.ms=86400000")
    configs("--entity-name", HERE, "--alter", "--add-config", "log.cleanup.policy=[compact,delete]")
    until(lambda: "log.retention.ms=86400000" in configs("--entity-default", "--describe"), "it is")
    printed = configs("--entity-name", HERE, "--describe")
    assert "log.cleanup.policy=compact,delete" in printed
    assert "DEFAULT_CONFIG:log.cleanup.policy=delete" in printed, "what it stands for, too"
    every = configs("--entity-name", HERE, "--describe", "--all")
    assert "log.retention.ms=86400000" in every
    configs("--entity-default", "--alter", "--delete-config", "log.retention.ms")
    configs("--entity-name", HERE, "--alter", "--delete-config", "log.cleanup.policy")
    assert "log.cleanup.policy" not in configs("--entity-name", HERE, "--describe")


def test_what_tools_look_for_in_a_broker(admin: AdminClient, bootstrap: str) -> None:
    found = described(admin, HERE)
    assert found["advertised.listeners"].value == f"PLAINTEXT://{bootstrap}"
    assert found["listeners"].value.startswith("PLAINTEXT://")
    assert found["node.id"].value == found["broker.id"].value == HERE
    assert found["log.dirs"].value
    assert all(found[name].is_read_only for name in ("listeners", "node.id", "log.dirs"))
    assert not found["log.retention.ms"].is_read_only


def test_levels_of_loggers_are_changed(java: JavaDriver, bootstrap: str) -> None:
    """KIP-412: until the broker's next start."""
    where = ("--bootstrap-server", bootstrap, "--entity-type", "broker-loggers")
    one = (*where, "--entity-name", HERE)
    printed = java.tool(CONFIG_TOOL, *one, "--describe")
    logger = next(line.split("=")[0].strip() for line in printed.splitlines() if "=" in line)
    java.tool(CONFIG_TOOL, *one, "--alter", "--add-config", f"{logger}=DEBUG")
    assert f"{logger}=DEBUG" in java.tool(CONFIG_TOOL, *one, "--describe")
    java.tool(CONFIG_TOOL, *one, "--alter", "--delete-config", logger)
    assert f"{logger}=DEBUG" not in java.tool(CONFIG_TOOL, *one, "--describe")
    with pytest.raises(AssertionError, match=r"no\.such\.logger"):
        java.tool(CONFIG_TOOL, *one, "--alter", "--add-config", "no.such.logger=DEBUG")


def test_kafka_python_changes_brokers(bootstrap: str) -> None:
    client = kafka_python.KafkaAdminClient(bootstrap_servers=bootstrap)
    kind = kafka_python.ConfigResourceType.BROKER
    try:
        wanted = kafka_python.ConfigResource(kind, HERE, configs={"log.segment.bytes": "2097152"})
        client.alter_configs([wanted])
        asked = [kafka_python.ConfigResource(kind, HERE)]
        until(lambda: "2097152" in str(client.describe_configs(asked)), "it is known")
        reset = kafka_python.ConfigResource(kind, HERE, configs=["log.segment.bytes"])
        client.reset_configs([reset])
        until(lambda: "2097152" not in str(client.describe_configs(asked)), "it is taken back")
    finally:
        client.close()
