"""Settings of brokers and levels of loggers that are changed while they run (KIP-226, KIP-412)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from penstock.broker.kafka.settings.brokers import DYNAMIC
from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import alter_configs as replacing
from penstock.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.protocol.kafka.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.kit.broker.kafka_client import KafkaClient, kafka_running
from tests.kit.broker.kafka_talk import create, produce
from tests.kit.broker.running import batch
from tests.kit.simulated_disk import SimulatedDisk

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, HERE, EVERYWHERE, STATIC, DEFAULT, LOGGER = range(1, 7)


@pytest.fixture
async def client() -> AsyncIterator[KafkaClient]:
    async with kafka_running(broker_id=7) as (_, connected):
        yield connected


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("penstock.broker.topics.topics")
    yield found
    found.setLevel(logging.NOTSET)


async def change(
    client: KafkaClient,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = BROKER,
    validate_only: bool = False,
) -> Any:
    configs = [AlterableConfig(*each) for each in changes]
    resource = AlterConfigsResource(kind, name, configs)
    request = IncrementalAlterConfigsRequest([resource], validate_only)
    return (await client.call(apis.INCREMENTAL_ALTER_CONFIGS, 1, request)).responses[0]


async def described(client: KafkaClient, kind: int, name: str) -> dict[str, Any]:
    request = DescribeConfigsRequest([DescribeConfigsResource(kind, name)], True, True)
    [result] = (await client.call(apis.DESCRIBE_CONFIGS, 4, request)).results
    assert result.error_code == ErrorCode.NONE, result.error_message
    return {setting.name: setting for setting in result.configs}


async def told(client: KafkaClient, kind: int, name: str, setting: str) -> tuple[str, int]:
    found = (await described(client, kind, name))[setting]
    return found.value, found.config_source


async def test_every_default_of_topics_can_be_changed(client: KafkaClient) -> None:
    for name, setting in (await described(client, BROKER, "7")).items():
        if name in DYNAMIC:
            done = await change(client, "7", (name, SET, setting.value))
            assert done.error_code == ErrorCode.NONE, done.error_message
            assert await told(client, BROKER, "7", name) == (setting.value, HERE)


async def test_what_is_changed_counts_at_once_and_after_a_restart() -> None:
    disk = SimulatedDisk()
    async with kafka_running(disk=disk.root) as (_, client):
        await create(client)
        await change(client, "1", ("message.max.bytes", SET, "150"))
        assert (await produce(client, batch([bytes(90)]))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await produce(client, batch([b"small"]))).error_code == ErrorCode.NONE
    async with kafka_running(disk=disk.root) as (_, client):
        assert (await produce(client, batch([bytes(90)]))).error_code == ErrorCode.MESSAGE_TOO_LARGE
        await change(client, "1", ("message.max.bytes", DELETE, None))
        assert (await produce(client, batch([bytes(90)]))).error_code == ErrorCode.NONE


async def test_a_topics_own_setting_goes_before_all(client: KafkaClient) -> None:
    await create(client, retention_ms="5")
    await change(client, "", ("log.retention.ms", SET, "6"))
    await change(client, "7", ("log.retention.ms", SET, "7"))
    setting = (await described(client, TOPIC, "orders"))["retention.ms"]
    assert [(each.name, each.value, each.source) for each in setting.synonyms] == [
        ("retention.ms", "5", OF_TOPIC),
        ("log.retention.ms", "7", HERE),
        ("log.retention.ms", "6", EVERYWHERE),
        ("log.retention.ms", "259200000", DEFAULT),
    ]
    everywhere = await described(client, BROKER, "")
    assert {name: each.value for name, each in everywhere.items()} == {"log.retention.ms": "6"}
    [synonym] = everywhere["log.retention.ms"].synonyms
    assert synonym.source == EVERYWHERE


async def test_lists_are_added_to_what_holds_below(client: KafkaClient) -> None:
    await change(client, "", ("log.cleanup.policy", SET, "compact"))
    await change(client, "7", ("log.cleanup.policy", APPEND, "delete"))
    assert await told(client, BROKER, "7", "log.cleanup.policy") == ("compact,delete", HERE)
    await change(client, "", ("log.cleanup.policy", APPEND, "delete"))
    found = await told(client, BROKER, "", "log.cleanup.policy")
    assert found == ("compact,delete", EVERYWHERE)


async def test_all_may_be_replaced(client: KafkaClient) -> None:
    await change(client, "7", ("log.retention.ms", SET, "7"), ("log.roll.ms", SET, "1000"))
    configs = [replacing.AlterableConfig("log.roll.ms", "2000")]
    request = replacing.AlterConfigsRequest([replacing.AlterConfigsResource(BROKER, "7", configs)])
    [done] = (await client.call(apis.ALTER_CONFIGS, 2, request)).responses
    assert done.error_code == ErrorCode.NONE
    assert await told(client, BROKER, "7", "log.roll.ms") == ("2000", HERE)
    assert await told(client, BROKER, "7", "log.retention.ms") == ("259200000", DEFAULT)


async def test_a_check_changes_nothing(client: KafkaClient) -> None:
    done = await change(client, "", ("log.retention.ms", SET, "6"), validate_only=True)
    assert done.error_code == ErrorCode.NONE
    assert await described(client, BROKER, "") == {}


@pytest.mark.parametrize(
    ("broker", "name", "value", "code", "says"),
    [
        ("7", "num.partitions", "3", ErrorCode.INVALID_REQUEST, "Set(num.partitions)"),
        ("", "advertised.listeners", "x", ErrorCode.INVALID_REQUEST, "dynamically"),
        ("7", "log.preallocate", "true", ErrorCode.INVALID_REQUEST, "Set(log.preallocate)"),
        ("7", "no.such", "3", ErrorCode.INVALID_CONFIG, "no setting no.such"),
        ("7", "retention.ms", "3", ErrorCode.INVALID_CONFIG, "no setting retention.ms"),
        ("7", "log.retention.ms", "soon", ErrorCode.INVALID_CONFIG, "log.retention.ms is 'soon'"),
        ("7", "log.retention.ms", None, ErrorCode.INVALID_REQUEST, "has no value"),
        ("8", "log.retention.ms", "3", ErrorCode.INVALID_REQUEST, "not this broker"),
    ],
)
async def test_what_cannot_be_is_refused(
    client: KafkaClient, broker: str, name: str, value: str | None, code: int, says: str
) -> None:
    for validate_only in (True, False):
        done = await change(client, broker, (name, SET, value), validate_only=validate_only)
        assert done.error_code == code
        assert says in done.error_message
    assert await described(client, BROKER, "") == {}


# --- loggers -----------------------------------------------------------------------------------


async def test_levels_are_set_and_taken_back(client: KafkaClient, logger: logging.Logger) -> None:
    before = await told(client, BROKER_LOGGER, "7", logger.name)
    done = await change(client, "7", (logger.name, SET, "error"), kind=BROKER_LOGGER)
    assert done.error_code == ErrorCode.NONE
    assert logger.level == logging.ERROR
    assert await told(client, BROKER_LOGGER, "7", logger.name) == ("ERROR", LOGGER)
    await change(client, "7", (logger.name, DELETE, None), kind=BROKER_LOGGER)
    assert await told(client, BROKER_LOGGER, "7", logger.name) == before
    assert "root" in await described(client, BROKER_LOGGER, "7")
    assert not any(name.startswith("asyncio") for name in await described(client, 8, "7"))


@pytest.mark.parametrize(
    ("broker", "change_of", "code"),
    [
        ("7", ("penstock.no.such", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        ("7", ("penstock.broker.topics.topics", SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("7", ("penstock.broker.topics.topics", APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ("7", ("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ("8", ("penstock.broker.topics.topics", SET, "INFO"), ErrorCode.INVALID_REQUEST),
        ("", ("penstock.broker.topics.topics", SET, "INFO"), ErrorCode.INVALID_REQUEST),
    ],
)
async def test_levels_that_cannot_be_are_refused(
    client: KafkaClient,
    logger: logging.Logger,
    broker: str,
    change_of: tuple[str, int, str | None],
    code: int,
) -> None:
    both = ("penstock.broker.topics.topics", SET, "FATAL"), change_of
    done = await change(client, broker, *both[change_of[0] == logger.name :], kind=BROKER_LOGGER)
    assert done.error_code == code
    assert logger.level == logging.NOTSET, "all or none"
