"""Settings under Kafka's names: read, changed, described with their source, refused as Kafka."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from penstock.broker.config import BrokerConfig
from penstock.broker.kafka.settings.brokers import DYNAMIC
from penstock.broker.kafka.settings.table import TOPIC_SETTINGS, SettingType
from penstock.broker.kafka.settings.topics import (
    DescribedSetting,
    Operation,
    OperationKind,
    Source,
    Synonym,
    change,
    describe,
    describe_broker,
    from_kafka,
    replace_all,
)
from penstock.broker.topics.defaults import TopicDefaults
from penstock.model.errors import InvalidConfig, InvalidRequest
from penstock.model.ids import TopicId
from penstock.model.topic_config import INT64_MAX, TopicConfig, with_settings
from penstock.registry.image import TopicImage

DEFAULTS = TopicConfig()


def described(
    settings: dict[str, str], defaults: TopicConfig = DEFAULTS
) -> dict[str, DescribedSetting]:
    topic = TopicImage(name="orders", id=TopicId("0" * 32), partitions=(), settings=settings)
    return {setting.name: setting for setting in describe(topic, TopicDefaults(defaults))}


def described_broker(config: BrokerConfig) -> list[DescribedSetting]:
    return describe_broker(config, TopicDefaults(config.topic_defaults), "127.0.0.1:9092")


def test_what_people_set_is_understood() -> None:
    settings = from_kafka(
        {
            "retention.ms": "604800000",
            "retention.bytes": "-1",
            "segment.bytes": "1048576",
            "cleanup.policy": "compact,delete",
            "max.message.bytes": "2000000",
            "compression.type": "zstd",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "2",
            "flush.messages": str(INT64_MAX),
            "preallocate": "true",
        }
    )
    config = with_settings(DEFAULTS, settings)
    assert config == replace(
        DEFAULTS,
        retention_ms=604_800_000,
        retention_bytes=-1,
        segment_bytes=1_048_576,
        cleanup_policy="compact,delete",
        batch_bytes_max=2_000_000,
        compression_type="zstd",
        timestamp_type="append",
        min_insync_replicas=2,
        durability="os",
    )
    assert settings["preallocate"] == "true"


def test_an_unknown_name_is_refused_as_kafka_does() -> None:
    with pytest.raises(InvalidConfig, match=r"^Unknown topic config name: foo$"):
        from_kafka({"foo": "1"})
    with pytest.raises(InvalidConfig, match=r"name: retention.msec. Did you mean retention.ms\?"):
        from_kafka({"retention.msec": "1"})
    with pytest.raises(InvalidConfig, match="Unknown topic config name: batch_bytes_max"):
        from_kafka({"batch_bytes_max": "1000"})


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(InvalidConfig, match=r"retention.ms has no value"):
        from_kafka({"retention.ms": None})


def test_durability_has_three_names_that_must_agree() -> None:
    assert from_kafka({"durability": "os"}) == from_kafka({"penstock.durability": "os"})
    assert from_kafka({"durability": "fsync", "flush.messages": "1"}) == {"durability": "fsync"}
    with pytest.raises(InvalidConfig, match=r"durability and flush.messages contradict"):
        from_kafka({"durability": "os", "flush.messages": "1"})


def test_a_topic_is_described_whole_with_sources() -> None:
    settings = described(
        {"retention_ms": "5000", "cleanup_policy": "delete, compact", "preallocate": "true"},
        replace(DEFAULTS, retention_ms=1000, segment_ms=2000),
    )
    assert list(settings) == [row.name for row in TOPIC_SETTINGS]

    retention = settings["retention.ms"]
    assert (retention.value, retention.type) == ("5000", SettingType.LONG)
    assert retention.source is Source.DYNAMIC_TOPIC_CONFIG
    assert retention.synonyms == (
        Synonym("retention.ms", "5000", Source.DYNAMIC_TOPIC_CONFIG),
        Synonym("log.retention.ms", "1000", Source.STATIC_BROKER_CONFIG),
        Synonym("log.retention.ms", "259200000", Source.DEFAULT_CONFIG),
    )
    assert settings["cleanup.policy"].value == "delete,compact"

    segment = settings["segment.ms"]
    assert (segment.value, segment.source) == ("2000", Source.STATIC_BROKER_CONFIG)
    assert (segment.is_default, segment.read_only, segment.sensitive) == (False, False, False)

    untouched = settings["max.message.bytes"]
    assert (untouched.value, untouched.source) == ("1048576", Source.DEFAULT_CONFIG)
    assert untouched.is_default
    assert untouched.synonyms == (Synonym("message.max.bytes", "1048576", Source.DEFAULT_CONFIG),)


def test_what_has_no_effect_is_described_as_it_was_set() -> None:
    settings = described({"preallocate": "true", "leader_replication_throttled_replicas": "0:1"})
    assert settings["preallocate"].value == "true"
    assert settings["preallocate"].source is Source.DYNAMIC_TOPIC_CONFIG
    assert settings["leader.replication.throttled.replicas"].value == "0:1"
    assert settings["follower.replication.throttled.replicas"].value == ""
    assert settings["follower.replication.throttled.replicas"].is_default


@pytest.mark.parametrize(("durability", "flush"), [("fsync", "1"), ("os", str(INT64_MAX))])
def test_durability_is_described_in_kafkas_words_too(durability: str, flush: str) -> None:
    settings = described({"durability": durability})
    assert settings["penstock.durability"].value == durability
    assert settings["flush.messages"].value == flush


def test_everything_described_can_be_set_again() -> None:
    """As tools do that copy a topic's settings to another."""
    own = {"cleanup_policy": "none", "timestamp_type": "append", "min_insync_replicas": "3"}
    values: dict[str, str | None] = {
        name: setting.value for name, setting in described(own).items()
    }
    assert with_settings(DEFAULTS, from_kafka(values)) == with_settings(DEFAULTS, own)


def operation(name: str, kind: int, value: str | None = None) -> Operation:
    return Operation(name=name, kind=kind, value=value)


def test_settings_are_set_and_deleted_one_by_one() -> None:
    changes = change(
        {"retention_ms": "5", "batch_bytes_max": "1000"},
        DEFAULTS,
        [
            operation("segment.ms", OperationKind.SET, "1000"),
            operation("max.message.bytes", OperationKind.DELETE),
        ],
    )
    assert changes.settings == {"segment_ms": "1000"}
    assert changes.reset == ("batch_bytes_max",)


@pytest.mark.parametrize(
    ("own", "kind", "value", "result"),
    [
        ({}, OperationKind.APPEND, "compact", "delete,compact"),
        ({"cleanup_policy": "compact"}, OperationKind.APPEND, "compact,delete", "compact,delete"),
        ({"cleanup_policy": "none"}, OperationKind.APPEND, "compact", "compact"),
        ({"cleanup_policy": "compact,delete"}, OperationKind.SUBTRACT, "delete", "compact"),
        ({"cleanup_policy": "compact"}, OperationKind.SUBTRACT, "delete", "compact"),
        ({}, OperationKind.SUBTRACT, "delete", "none"),
    ],
)
def test_lists_grow_and_shrink(
    own: dict[str, str], kind: OperationKind, value: str, result: str
) -> None:
    changes = change(own, DEFAULTS, [operation("cleanup.policy", kind, value)])
    assert changes.settings == {"cleanup_policy": result}


def test_a_list_grows_from_the_brokers_default() -> None:
    defaults = replace(DEFAULTS, cleanup_policy="compact")
    changes = change({}, defaults, [operation("cleanup.policy", OperationKind.APPEND, "delete")])
    assert changes.settings == {"cleanup_policy": "compact,delete"}


@pytest.mark.parametrize(
    ("operations", "error", "says"),
    [
        ([operation("foo", 0, "1")], InvalidConfig, "Unknown topic config name: foo"),
        ([operation("foo", 1)], InvalidConfig, "Unknown topic config name: foo"),
        ([operation("retention.ms", 2, "1")], InvalidConfig, "is no list"),
        ([operation("cleanup.policy", 2)], InvalidRequest, "no value"),
        ([operation("retention.ms", 0)], InvalidConfig, "no value"),
        ([operation("retention.ms", 9, "1")], InvalidRequest, "9 is no operation"),
        (
            [operation("retention.ms", 0, "1"), operation("retention.ms", 1)],
            InvalidRequest,
            "changed twice",
        ),
        (
            [operation("flush.messages", 1), operation("durability", 0, "os")],
            InvalidRequest,
            "changed twice",
        ),
    ],
)
def test_changes_that_make_no_sense_are_refused(
    operations: list[Operation], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        change({}, DEFAULTS, operations)


def test_what_is_described_can_be_sent_back_whole() -> None:
    """MirrorMaker 2 copies a topic's settings: it deletes those that are defaults, sets others."""
    names = [row.name for row in TOPIC_SETTINGS]
    all_deleted = change({"durability": "os"}, DEFAULTS, [operation(name, 1) for name in names])
    assert all_deleted.settings == {}
    assert sorted(all_deleted.reset) == sorted({row.own_name for row in TOPIC_SETTINGS})
    copied = [
        operation(setting.name, 0, setting.value)
        for setting in described({"durability": "os"}).values()
        if setting.source == Source.DYNAMIC_TOPIC_CONFIG
    ]
    assert len(copied) == 2
    assert change({}, DEFAULTS, copied).settings == {"durability": "os"}


def test_a_full_change_leaves_nothing_of_before() -> None:
    changes = replace_all(
        {"retention_ms": "5", "preallocate": "true"}, {"retention.ms": "6", "segment.ms": "1000"}
    )
    assert changes.settings == {"retention_ms": "6", "segment_ms": "1000"}
    assert changes.reset == ("preallocate",)


def test_a_broker_is_described_by_kafkas_names_where_there_are_any() -> None:
    config = BrokerConfig(
        listen=("a:1", "b:2"),
        partitions_default=3,
        topic_defaults=replace(DEFAULTS, retention_ms=1000),
    )
    settings = {setting.name: setting for setting in described_broker(config)}
    values = {name: setting.value for name, setting in settings.items()}
    assert values["num.partitions"] == "3"
    assert values["listeners"] == "PLAINTEXT://a:1,PLAINTEXT://b:2"
    assert values["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert values["broker.id"] == values["node.id"] == "1"
    assert values["log.dir"] == values["log.dirs"] == "penstock-data"
    assert values["auto.create.topics.enable"] == "true"
    assert values["log.retention.ms"] == "1000"
    assert values["message.max.bytes"] == "1048576"
    assert values["default.replication.factor"] == "1"
    assert values["penstock.partitions_per_topic_max"] == "10"
    changeable = {name for name, setting in settings.items() if not setting.read_only}
    assert changeable == set(DYNAMIC)
    assert settings["num.partitions"].source is Source.STATIC_BROKER_CONFIG
    assert settings["num.partitions"].type is SettingType.INT
    assert settings["log.retention.ms"].source is Source.STATIC_BROKER_CONFIG
    assert settings["auto.create.topics.enable"].source is Source.DEFAULT_CONFIG
    assert settings["auto.create.topics.enable"].type is SettingType.BOOLEAN
    assert list(settings) == sorted(settings)


def test_a_password_is_told_to_nobody() -> None:
    config = BrokerConfig(registry="zookeeper://ann:secret@h1:2181/penstock")
    values = {setting.name: setting.value for setting in described_broker(config)}
    assert values["penstock.registry"] == "zookeeper://h1:2181/penstock"


def test_no_setting_of_a_broker_is_left_out_or_told_twice() -> None:
    told = [setting.name for setting in described_broker(BrokerConfig())]
    assert len(told) == len(set(told))
    names_of_defaults = sum(bool(row.broker_name) for row in TOPIC_SETTINGS)
    facts = {"default.replication.factor", "delete.topic.enable"}
    two_names = {"broker.id", "log.dir"}
    others = len(fields(BrokerConfig)) - 1 + len(facts) + len(two_names)
    assert len(told) == others + names_of_defaults
