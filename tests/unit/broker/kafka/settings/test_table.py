"""The table of Kafka's topic settings: complete, of the right types, each with a meaning here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.broker.kafka.settings.table import TOPIC_SETTINGS, KafkaSetting, SettingType
from penstock.model.errors import InvalidConfig
from penstock.model.topic_config import INT64_MAX, KEPT, NAMES, TopicConfig

# Kafka 4.3.1's LogConfig.configDefCopy(), without what it marks as internal.
KAFKA_TYPES = {
    "cleanup.policy": "LIST",
    "compression.gzip.level": "INT",
    "compression.lz4.level": "INT",
    "compression.type": "STRING",
    "compression.zstd.level": "INT",
    "delete.retention.ms": "LONG",
    "file.delete.delay.ms": "LONG",
    "flush.messages": "LONG",
    "flush.ms": "LONG",
    "follower.replication.throttled.replicas": "LIST",
    "index.interval.bytes": "INT",
    "leader.replication.throttled.replicas": "LIST",
    "local.retention.bytes": "LONG",
    "local.retention.ms": "LONG",
    "max.compaction.lag.ms": "LONG",
    "max.message.bytes": "INT",
    "message.timestamp.after.max.ms": "LONG",
    "message.timestamp.before.max.ms": "LONG",
    "message.timestamp.type": "STRING",
    "min.cleanable.dirty.ratio": "DOUBLE",
    "min.compaction.lag.ms": "LONG",
    "min.insync.replicas": "INT",
    "preallocate": "BOOLEAN",
    "remote.log.copy.disable": "BOOLEAN",
    "remote.log.delete.on.disable": "BOOLEAN",
    "remote.storage.enable": "BOOLEAN",
    "retention.bytes": "LONG",
    "retention.ms": "LONG",
    "segment.bytes": "INT",
    "segment.index.bytes": "INT",
    "segment.jitter.ms": "LONG",
    "segment.ms": "LONG",
    "unclean.leader.election.enable": "BOOLEAN",
}
ROWS = {row.name: row for row in TOPIC_SETTINGS}


def test_every_setting_of_kafka_is_there_with_its_type() -> None:
    ours = {name: row.type.name for name, row in ROWS.items() if name in KAFKA_TYPES}
    assert ours == KAFKA_TYPES
    ours_alone = {"penstock.durability", "penstock.exclusive.producer"}
    assert set(ROWS) - set(KAFKA_TYPES) == ours_alone
    assert [row.name for row in TOPIC_SETTINGS] == sorted(ROWS)


def test_every_setting_of_ours_can_be_reached() -> None:
    assert {row.own_name for row in TOPIC_SETTINGS} == set(NAMES) | set(KEPT)


def test_every_default_goes_round() -> None:
    defaults = TopicConfig().as_text() | dict(KEPT)
    for row in TOPIC_SETTINGS:
        own = defaults[row.own_name]
        assert row.to_own(row.from_own(own)) == own
        assert row.documentation.endswith(".")
        assert row.documentation.startswith("Kept without effect") == (row.own_name in KEPT)


@pytest.mark.parametrize(
    ("name", "kafka", "own"),
    [
        ("cleanup.policy", "compact", "compact"),
        ("cleanup.policy", "", "none"),
        ("compression.gzip.level", "-1", "6"),
        ("compression.gzip.level", "9", "9"),
        ("flush.messages", "1", "fsync"),
        ("flush.messages", str(INT64_MAX), "os"),
        ("max.message.bytes", "1048588", "1048588"),
        ("message.timestamp.type", "LogAppendTime", "append"),
        ("preallocate", "true", "true"),
    ],
)
def test_values_are_translated_both_ways(name: str, kafka: str, own: str) -> None:
    assert ROWS[name].to_own(kafka) == own
    assert ROWS[name].from_own(own) == kafka


def test_values_are_read_as_loosely_as_kafka_reads_them() -> None:
    assert ROWS["preallocate"].to_own(" TRUE ") == "true"
    assert ROWS["retention.ms"].to_own(" 5 ") == "5"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("cleanup.policy", "shrink", "cleanup.policy is 'shrink'"),
        ("segment.bytes", "100", "segment.bytes is 100: it must be from"),
        ("segment.bytes", "abc", "segment.bytes is 'abc': it must be a whole number"),
        ("max.message.bytes", "0", "max.message.bytes is 0"),
        ("message.timestamp.type", "create", "CreateTime or LogAppendTime"),
        ("flush.messages", "10000", "penstock.durability"),
        ("flush.ms", "1000", "penstock.durability"),
        ("remote.storage.enable", "true", "there is no remote storage"),
        ("unclean.leader.election.enable", "true", "it can only be false"),
        ("preallocate", "banana", "true or false"),
        ("min.cleanable.dirty.ratio", "2", "from 0 to 1"),
        ("leader.replication.throttled.replicas", "x", "partition:broker"),
        ("compression.type", "none", "uncompressed"),
        ("compression.gzip.level", "0", "compression.gzip.level is 0"),
    ],
)
def test_values_that_kafka_or_we_refuse_are_explained(name: str, value: str, says: str) -> None:
    with pytest.raises(InvalidConfig, match=says):
        ROWS[name].to_own(value)


def test_the_documentation_lists_every_name() -> None:
    document = (Path(__file__).parents[5] / "docs" / "configuration.md").read_text()
    _, _, document = document.partition("### Kafka's names")
    listed = dict(
        re.findall(r"^\| `([a-z.0-9]+)` \| (`[a-z_]+`|no effect) \|", document, re.MULTILINE)
    )
    assert listed == {row.name: _here(row) for row in TOPIC_SETTINGS}


def _here(row: KafkaSetting) -> str:
    return "no effect" if row.own_name in KEPT else f"`{row.own_name}`"


def test_types_have_the_numbers_of_the_wire() -> None:
    assert {kind.name: kind.value for kind in SettingType} == {
        "BOOLEAN": 1,
        "STRING": 2,
        "INT": 3,
        "LONG": 5,
        "DOUBLE": 6,
        "LIST": 7,
    }
