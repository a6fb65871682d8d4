"""Flags over environment over file, every name known, every value checked."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from penstock.broker.config import BrokerConfig
from penstock.cli import settings
from penstock.model import topic_config
from penstock.model.errors import InvalidConfig

FILE = """
data = "from-file"
listen = ["127.0.0.1:9092", "[::1]:9092"]
partitions_default = 2
idle_ping_ms = "90s"
auto_create_topics = false

[topic_defaults]
durability = "os"
retention_ms = "7d"
segment_bytes = 1048576
"""


def test_nothing_given_is_the_defaults() -> None:
    assert settings.load() == BrokerConfig()


def test_the_file_sets_every_kind_of_value() -> None:
    config = settings.load(file_text=FILE, file_name="penstock.toml")
    assert config.data == "from-file"
    assert config.listen == ("127.0.0.1:9092", "[::1]:9092")
    assert config.partitions_default == 2
    assert config.idle_ping_ms == 90_000
    assert config.auto_create_topics is False
    assert config.topic_defaults.durability == "os"
    assert config.topic_defaults.retention_ms == 7 * 24 * 60 * 60 * 1000
    assert config.topic_defaults.segment_bytes == 1_048_576


def test_environment_over_file_and_flags_over_both() -> None:
    environment = {
        "PENSTOCK_DATA": "from-environment",
        "PENSTOCK_LISTEN": "127.0.0.1:1, 127.0.0.1:2",
        "PENSTOCK_TOPIC_DEFAULTS__SEGMENT_BYTES": "64MiB",
        "PENSTOCK_PURE": "1",
        "PENSTOCK_BOOTSTRAP": "somewhere:9092",
        "PATH": "/bin",
    }
    flags = [("data", "from-flag"), ("topic-defaults.retention-ms", "1h")]
    config = settings.load(
        flags=flags, environment=environment, file_text=FILE, file_name="penstock.toml"
    )
    assert config.data == "from-flag"
    assert config.listen == ("127.0.0.1:1", "127.0.0.1:2")
    assert config.partitions_default == 2
    assert config.topic_defaults.segment_bytes == 64 * 2**20
    assert config.topic_defaults.retention_ms == 3_600_000
    assert config.topic_defaults.durability == "os"


def test_a_list_grows_by_its_flag_and_anything_else_is_replaced() -> None:
    flags = [("listen", "a:1"), ("listen", "unix:/run/b"), ("broker_id", "1"), ("broker_id", "2")]
    config = settings.load(flags=flags, environment={"PENSTOCK_LISTEN": "c:3"})
    assert config.listen == ("a:1", "unix:/run/b")
    assert config.broker_id == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flags": [("partition_default", "2")]}, "did you mean partitions_default"),
        ({"flags": [("retention_ms", "2")]}, "did you mean topic_defaults.retention_ms"),
        (
            {"environment": {"PENSTOCK_PARTITION_DEFAULT": "2"}},
            "PENSTOCK_PARTITION_DEFAULT is no setting .* mean PENSTOCK_PARTITIONS_DEFAULT",
        ),
        (
            {"environment": {"PENSTOCK_TOPIC_DEFAULTS__RETENTION": "2"}},
            "did you mean PENSTOCK_TOPIC_DEFAULTS__RETENTION_MS",
        ),
        ({"file_text": "dada = 'x'", "file_name": "a.toml"}, "a.toml: dada .* did you mean data"),
        (
            {"file_text": "[topic_defaults]\nduribility = 'os'", "file_name": "a.toml"},
            "did you mean topic_defaults.durability",
        ),
        ({"file_text": "[brokers]\nx = 1", "file_name": "a.toml"}, "brokers is no setting"),
        ({"flags": [("zzzzzz", "2")]}, "docs/configuration.md"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        settings.load(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"flags": [("partitions_default", "many")]}, "'many': it must be a whole number"),
        ({"flags": [("partitions_default", "0")]}, "must be from 1 to 10"),
        ({"flags": [("frame_bytes_max", "5s")]}, "'5s' is not a size"),
        ({"environment": {"PENSTOCK_IDLE_PING_MS": "1MB"}}, "PENSTOCK_IDLE_PING_MS: '1MB'"),
        ({"flags": [("auto_create_topics", "maybe")]}, "true or false"),
        ({"flags": [("topic_defaults.durability", "never")]}, "fsync or os"),
        ({"flags": [("data", "")]}, "data is empty"),
        ({"flags": [("listen", " , ")]}, "listen is empty"),
        ({"file_text": "data = ", "file_name": "a.toml"}, "a.toml is not TOML"),
        ({"file_text": "broker_id = 1.5", "file_name": "a.toml"}, "a.toml: broker_id is '1.5'"),
        ({"file_text": "listen = [1]", "file_name": "a.toml"}, "a.toml: listen is"),
        (
            {"file_text": "topic_defaults = 1", "file_name": "a.toml"},
            "topic_defaults is no setting",
        ),
    ],
)
def test_a_value_it_cannot_take_is_an_error_that_says_where(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidConfig, match=message):
        settings.load(**given)  # type: ignore[arg-type]


def test_every_setting_of_the_broker_can_be_given_in_the_environment() -> None:
    """A setting added to the broker must not be forgotten here."""
    defaults = BrokerConfig(advertise="here:1")
    environment = {}
    for field in fields(BrokerConfig):
        value = getattr(defaults, field.name)
        if field.name == "topic_defaults":
            for name, text in value.as_text().items():
                environment[f"PENSTOCK_TOPIC_DEFAULTS__{name.upper()}"] = text
        else:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            environment[f"PENSTOCK_{field.name.upper()}"] = text
    assert settings.load(environment=environment) == defaults


def test_a_configuration_as_variables_is_the_same_again() -> None:
    assert settings.as_environment(BrokerConfig()) == {}
    config = settings.load(
        flags=[
            ("listen", "a:1"),
            ("listen", "unix:/run/b"),
            ("auto_create_topics", "false"),
            ("idle_ping_ms", "90s"),
            ("registry", "meta://1@h1:9092,2@h2:9092,3@h3:9092"),
            ("roles", "broker,meta"),
            ("topic_defaults.min_cleanable_dirty_ratio", "0.25"),
            ("topic_defaults.cleanup_policy", "compact,delete"),
        ]
    )
    variables = settings.as_environment(config)
    assert len(variables) == 7
    assert settings.load(environment=variables) == config


def test_what_is_left_of_an_environment_without_settings() -> None:
    environment = {
        "PATH": "/bin",
        "PENSTOCK_PURE": "1",
        "PENSTOCK_DATA": "x",
        "PENSTOCK_CONFIG": "",
    }
    assert settings.without_settings(environment) == {"PATH": "/bin", "PENSTOCK_PURE": "1"}


def test_every_setting_is_documented_with_its_default() -> None:
    document = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()
    documented = dict(re.findall(r"^\| `([a-z_]+)` \| `([^`]+)` \|", document, re.MULTILINE))
    topic_names = set(topic_config.NAMES)
    # Their default is nothing, which the document says in words.
    unset = {"advertise", "registry", "host"}
    assert unset <= set(re.findall(r"^\| `([a-z_]+)` \| (?!`)", document, re.MULTILINE))
    names = {field.name for field in fields(BrokerConfig)} - {"topic_defaults"} - unset
    assert set(documented) == names | topic_names
    flags = [(f"topic_defaults.{n}" if n in topic_names else n, v) for n, v in documented.items()]
    assert settings.load(flags=flags) == BrokerConfig()


def test_topic_settings_are_plain_numbers_for_the_broker() -> None:
    given = ["retention.ms=72h", "segment-bytes=1MiB", "durability=os", "retention_bytes=-1"]
    assert settings.topic_settings(given) == {
        "retention_ms": "259200000",
        "segment_bytes": "1048576",
        "durability": "os",
        "retention_bytes": "-1",
    }


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("retention_ms", "name=value"),
        ("=5", "name=value"),
        ("retention=5", "mean 'retention_ms'"),
        ("segment_bytes=1", "must be from"),
        ("segment_bytes=big", "segment_bytes: 'big' is not a size"),
    ],
)
def test_topic_settings_are_checked_before_the_broker_is_asked(given: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        settings.topic_settings([given])
