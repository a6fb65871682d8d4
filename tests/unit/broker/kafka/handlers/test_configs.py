"""Settings through Kafka's APIs: described, replaced, changed one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.protocol.kafka import apis
from penstock.protocol.kafka.errors import ErrorCode
from penstock.protocol.kafka.messages import alter_configs as replacing
from penstock.protocol.kafka.messages import incremental_alter_configs as changing
from penstock.protocol.kafka.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from penstock.protocol.kafka.messages.list_config_resources import ListConfigResourcesRequest
from tests.kit.broker.kafka_client import KafkaClient, connect, kafka_running
from tests.kit.broker.kafka_talk import codes, create

TOPIC = 2
BROKER = 4
BROKER_LOGGER = 8
CLIENT_METRICS = 16
GROUP = 32
SET, DELETE, APPEND, SUBTRACT = range(4)


async def describe(
    client: KafkaClient,
    name: str = "orders",
    kind: int = TOPIC,
    keys: Sequence[str] | None = None,
    version: int = 4,
    more: bool = False,
) -> Any:
    resource = DescribeConfigsResource(kind, name, keys)
    request = DescribeConfigsRequest([resource], more, more)
    (result,) = (await client.call(apis.DESCRIBE_CONFIGS, version, request)).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def value(client: KafkaClient, key: str) -> str | None:
    (setting,) = (await describe(client, keys=[key])).configs
    found: str | None = setting.value
    return found


async def replace(
    client: KafkaClient,
    configs: dict[str, str | None],
    name: str = "orders",
    kind: int = TOPIC,
    validate_only: bool = False,
    version: int = 2,
) -> Any:
    settings = [replacing.AlterableConfig(key, text) for key, text in configs.items()]
    resource = replacing.AlterConfigsResource(kind, name, settings)
    request = replacing.AlterConfigsRequest([resource], validate_only)
    (response,) = (await client.call(apis.ALTER_CONFIGS, version, request)).responses
    return response


async def change(
    client: KafkaClient,
    *changes: tuple[str, int, str | None],
    name: str = "orders",
    kind: int = TOPIC,
    validate_only: bool = False,
    version: int = 1,
) -> Any:
    settings = [changing.AlterableConfig(*one) for one in changes]
    resource = changing.AlterConfigsResource(kind, name, settings)
    request = changing.IncrementalAlterConfigsRequest([resource], validate_only)
    response = await client.call(apis.INCREMENTAL_ALTER_CONFIGS, version, request)
    (result,) = response.responses
    return result


# --- described ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topics_settings_and_where_they_come_from(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client, retention_ms="1234")
        result = await describe(client, version=version, more=True)
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
        settings = {setting.name: setting for setting in result.configs}
        mine, default = settings["retention.ms"], settings["segment.bytes"]
        assert (mine.value, mine.config_source, mine.read_only) == ("1234", 1, False)
        assert [synonym.source for synonym in mine.synonyms] == [1, 5]
        assert default.config_source == 5
        if version >= 3:
            assert mine.documentation
            assert mine.config_type == 5
        short = await describe(client, version=version)
        assert not any(setting.synonyms or setting.documentation for setting in short.configs)


async def test_only_what_was_asked_for() -> None:
    """An empty list says all, as some clients mean it and Kafka takes it."""
    async with kafka_running() as (_, client):
        await create(client)
        keys = ["retention.ms", "no.such.thing"]
        assert [one.name for one in (await describe(client, keys=keys)).configs] == keys[:1]
        everything = await describe(client)
        assert (await describe(client, keys=[])).configs == everything.configs
        assert len(everything.configs) > 20


async def test_a_brokers_settings() -> None:
    """By its id those it has; without one those of all brokers, of which none is set."""
    async with kafka_running(broker_id=7) as (_, client):
        settings = {one.name: one for one in (await describe(client, "7", BROKER)).configs}
        assert settings["node.id"].value == "7"
        assert settings["node.id"].read_only
        assert (await describe(client, "", BROKER)).configs == []
        for name in ("8", "seven"):
            assert (await describe(client, name, BROKER)).error_code == ErrorCode.INVALID_REQUEST


async def test_what_cannot_be_described() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        for name, kind, code in (
            ("nothing", TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("", TOPIC, ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("orders", 0, ErrorCode.INVALID_REQUEST),
            ("orders", CLIENT_METRICS, ErrorCode.INVALID_REQUEST),
            ("orders", -1, ErrorCode.INVALID_REQUEST),
        ):
            result = await describe(client, name, kind)
            assert (result.error_code, result.configs) == (code, [])
            assert result.error_message


async def test_each_resource_is_described_once() -> None:
    """Or a small request could ask for any amount of settings. Many are described in turns."""
    async with kafka_running() as (_, client):
        names = [f"t{number}" for number in range(45)]
        for name in names:
            await create(client, name)
        resources = [DescribeConfigsResource(TOPIC, name, None) for name in names]
        request = DescribeConfigsRequest([*resources, resources[0]])
        results = (await client.call(apis.DESCRIBE_CONFIGS, 4, request)).results
        refused = ErrorCode.INVALID_REQUEST
        assert codes(results) == [refused, *[0] * 44, refused]


# --- changed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(3))
async def test_replaced_settings_are_all_there_are(version: int) -> None:
    async with kafka_running() as (_, client):
        await create(client, retention_ms="1234", segment_bytes="1048576")
        response = await replace(client, {"retention.ms": "5678"}, version=version)
        assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
        assert (response.resource_type, response.resource_name) == (TOPIC, "orders")
        assert await value(client, "retention.ms") == "5678"
        (other,) = (await describe(client, keys=["segment.bytes"])).configs
        assert other.config_source == 5, "back to the default"


@pytest.mark.parametrize("version", range(2))
async def test_settings_are_changed_one_by_one(version: int) -> None:
    """KIP-339."""
    async with kafka_running() as (_, client):
        await create(client, segment_bytes="1048576", cleanup_policy="delete")
        response = await change(
            client,
            ("retention.ms", SET, "5678"),
            ("segment.bytes", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
            version=version,
        )
        assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
        assert await value(client, "retention.ms") == "5678"
        assert await value(client, "segment.bytes") != "1048576"
        assert await value(client, "cleanup.policy") == "delete,compact"
        await change(client, ("cleanup.policy", SUBTRACT, "delete"))
        assert await value(client, "cleanup.policy") == "compact"


async def test_a_check_changes_nothing() -> None:
    async with kafka_running() as (_, client):
        await create(client, retention_ms="1234")
        assert (await replace(client, {}, validate_only=True)).error_code == ErrorCode.NONE
        fine = await change(client, ("retention.ms", SET, "1"), validate_only=True)
        assert fine.error_code == ErrorCode.NONE
        assert await value(client, "retention.ms") == "1234"


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "key", "text", "code"),
    [
        ("nothing", TOPIC, "retention.ms", "1", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__offsets", TOPIC, "retention.ms", "1", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("orders", TOPIC, "retention.ns", "1", ErrorCode.INVALID_CONFIG),
        ("orders", TOPIC, "retention.ms", "soon", ErrorCode.INVALID_CONFIG),
        ("orders", TOPIC, "retention.ms", None, ErrorCode.INVALID_REQUEST),
        ("1", BROKER, "num.partitions", "1", ErrorCode.INVALID_REQUEST),
        ("", BROKER, "num.partitions", "1", ErrorCode.INVALID_REQUEST),
        ("orders", 3, "retention.ms", "1", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_what_cannot_be_changed_says_why(
    name: str, kind: int, key: str, text: str | None, code: ErrorCode, validate_only: bool
) -> None:
    async with kafka_running() as (_, client):
        await create(client, retention_ms="1234")
        how: dict[str, Any] = {"name": name, "kind": kind, "validate_only": validate_only}
        for response in (
            await replace(client, {key: text}, **how),
            await change(client, (key, SET, text), **how),
        ):
            assert ErrorCode(response.error_code) is code
            assert response.error_message
        assert await value(client, "retention.ms") == "1234"


async def test_a_resource_named_twice_is_not_changed() -> None:
    async with kafka_running() as (_, client):
        await create(client)
        resource = replacing.AlterConfigsResource(TOPIC, "orders")
        request = replacing.AlterConfigsRequest([resource, resource])
        response = await client.call(apis.ALTER_CONFIGS, 2, request)
        assert codes(response.responses) == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("name", "kind"), [("orders", TOPIC), ("1", BROKER), ("1", BROKER_LOGGER), ("g", GROUP)]
)
async def test_too_many_settings_are_counted_before_any_is_looked_at(name: str, kind: int) -> None:
    """The last is one too many, and there twice."""
    changes = [(f"setting-{number}", DELETE, None) for number in range(10_000)]
    async with kafka_running() as (_, client):
        await create(client)
        refused = await change(client, *changes, changes[0], name=name, kind=kind)
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        assert "names 10001 settings: 10000 is the limit" in refused.error_message
        if kind != BROKER_LOGGER:
            given: dict[str, str | None] = {f"setting-{number}": "1" for number in range(10_001)}
            refused = await replace(client, given, name, kind)
            assert refused.error_code == ErrorCode.INVALID_REQUEST
            assert "names 10001 settings: 10000 is the limit" in refused.error_message


async def test_two_who_change_one_list_at_once_both_do() -> None:
    async with kafka_running() as (broker, client):
        other = await connect(broker)
        await create(client, cleanup_policy="delete")
        added, removed = await asyncio.gather(
            change(client, ("cleanup.policy", APPEND, "compact")),
            change(other, ("cleanup.policy", SUBTRACT, "delete")),
        )
        assert codes([added, removed]) == [ErrorCode.NONE] * 2
        assert await value(client, "cleanup.policy") == "compact"
        await other.close()


async def test_what_has_settings() -> None:
    """KIP-1142. Version 0 asks for client metrics alone, of which there are none."""
    async with kafka_running(broker_id=7) as (_, client):
        await create(client)
        for version, wanted, expected in (
            (0, [], set()),
            (1, [], {(TOPIC, "orders"), (BROKER, "7"), (BROKER_LOGGER, "7")}),
            (1, [TOPIC], {(TOPIC, "orders")}),
            (1, [BROKER], {(BROKER, "7")}),
            (1, [CLIENT_METRICS], set()),
        ):
            request = ListConfigResourcesRequest(wanted)
            response = await client.call(apis.LIST_CONFIG_RESOURCES, version, request)
            assert response.error_code == ErrorCode.NONE
            assert expected == {
                (one.resource_type, one.resource_name)
                for one in response.config_resources
                if not one.resource_name.startswith("__")
            }
        unknown = ListConfigResourcesRequest([TOPIC, 99])
        response = await client.call(apis.LIST_CONFIG_RESOURCES, 1, unknown)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


# --- of groups ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_groups_settings_and_where_they_come_from(version: int) -> None:
    """Also of one that is not there: it would have them."""
    session_ms = 50_000
    async with kafka_running(group_consumer_session_timeout_ms=session_ms) as (_, client):
        lease = "share.record.lock.duration.ms"
        changed = await change(client, (lease, SET, "20000"), name="g", kind=GROUP)
        assert changed.error_code == ErrorCode.NONE
        result = await describe(client, "g", GROUP, version=version, more=True)
        assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
        settings = {setting.name: setting for setting in result.configs}
        mine = settings[lease]
        assert (mine.value, mine.config_source, mine.read_only) == ("20000", 8, False)
        assert [(one.name, one.value, one.source) for one in mine.synonyms] == [
            (lease, "20000", 8),
            ("group.share.record.lock.duration.ms", "30000", 5),
        ]
        static = settings["consumer.session.timeout.ms"]
        assert (static.value, static.config_source) == (str(session_ms), 4)
        assert [(one.value, one.source) for one in static.synonyms] == [("50000", 4), ("45000", 5)]
        default = settings["share.auto.offset.reset"]
        assert (default.value, default.config_source) == ("earliest", 5)
        letters = settings["errors.deadletterqueue.topic.name"]
        assert (letters.value, letters.config_source) == ("dead-letters.g", 5)
        if version >= 3:
            kinds = (mine, default, settings["share.renew.acknowledge.enable"])
            assert [one.config_type for one in kinds] == [3, 2, 1]
            assert all(setting.documentation for setting in result.configs)
        assert not any(name.startswith("streams.") for name in settings)
        short = await describe(client, "g", GROUP, [lease, "none.such"], version=version)
        assert [(one.name, list(one.synonyms)) for one in short.configs] == [(lease, [])]


async def test_a_groups_settings_are_changed_and_taken_back() -> None:
    async with kafka_running() as (_, client):
        names = ("share.delivery.count.limit", "share.auto.offset.reset")

        async def values() -> list[str]:
            found = {one.name: one.value for one in (await describe(client, "g", GROUP)).configs}
            return [found[name] for name in names]

        async def listed() -> list[str]:
            request = ListConfigResourcesRequest([GROUP])
            response = await client.call(apis.LIST_CONFIG_RESOURCES, 1, request)
            assert response.error_code == ErrorCode.NONE
            return [one.resource_name for one in response.config_resources]

        both = [(names[0], SET, "3"), (names[1], SET, "latest")]
        tried = await change(client, *both, name="g", kind=GROUP, validate_only=True)
        assert (tried.error_code, await values()) == (ErrorCode.NONE, ["5", "earliest"])
        assert await listed() == []
        await change(client, *both, name="g", kind=GROUP)
        assert (await values(), await listed()) == (["3", "latest"], ["g"])
        await change(client, (names[0], DELETE, None), name="g", kind=GROUP)
        assert await values() == ["5", "latest"]
        await replace(client, {names[0]: "4"}, "g", GROUP)
        assert await values() == ["4", "earliest"], "those it names are all there are"
        await replace(client, {}, "g", GROUP)
        assert (await values(), await listed()) == (["5", "earliest"], [])


async def test_settings_that_a_group_cannot_have() -> None:
    async with kafka_running() as (_, client):
        for changes, code, why in (
            ([("share.delivery.count.limit", SET, "1")], ErrorCode.INVALID_CONFIG, "which is 2"),
            ([("share.delivery.count.limit", SET, None)], ErrorCode.INVALID_CONFIG, "Null value"),
            ([("share.delivery.count.limit", APPEND, "1")], ErrorCode.INVALID_CONFIG, "no list"),
            ([("share.delivery.count.limit", 9, "1")], ErrorCode.INVALID_REQUEST, "no operation"),
            ([("retention.ms", SET, "1")], ErrorCode.INVALID_CONFIG, "Unknown group config name"),
            (
                [("streams.num.standby.replicas", SET, "1")],
                ErrorCode.INVALID_CONFIG,
                "streams groups, which are not served here",
            ),
            (
                [(one, SET, "3") for one in ["share.delivery.count.limit"] * 2],
                ErrorCode.INVALID_REQUEST,
                "changed twice",
            ),
        ):
            refused = await change(client, *changes, name="g", kind=GROUP)
            assert refused.error_code == code, refused
            assert why in refused.error_message
        for described in (
            await describe(client, "", GROUP),
            await change(client, name="", kind=GROUP),
            await replace(client, {}, "", GROUP),
        ):
            assert described.error_code == ErrorCode.INVALID_REQUEST
            assert "Default group resources are not allowed" in described.error_message
