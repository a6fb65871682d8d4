"""The settings of a broker are checked as a whole."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.broker.config import BrokerConfig
from penstock.model.errors import InvalidConfig


def test_the_defaults_make_sense() -> None:
    BrokerConfig().validate()


@pytest.mark.parametrize(
    "settings",
    [
        {"data": ""},
        {"listen": ()},
        {"partitions_default": 11},
        {"flush_threads": 0},
        {"group_session_timeout_ms_min": 10_000, "group_session_timeout_ms_max": 9_999},
        {"group_consumer_heartbeat_interval_ms": 45_001},
        {"group_members_max": 0},
        {"offsets_retention_ms": 0},
        {"replication_factor_default": -1},
        {"replication_factor_default": 101},
        {"internal_replication_factor": 0},
        {"internal_replication_factor": 101},
        {"host": "a\nb"},
        {"host": "h" * 254},
        {"roles": ()},
        {"roles": ("meta",)},
        {"roles": ("broker", "mete")},
        {"roles": ("broker", "meta")},
        {"roles": ("broker", "meta"), "registry": "zookeeper://h1:2181/penstock"},
        {"roles": ("broker", "meta"), "registry": "meta://2@h1:9092"},
        {"registry": "etcd://h1:2379"},
        {"registry": "zookeeper://h1/zookeeper"},
        {"registry": "meta://h1:9092"},
    ],
)
def test_nonsense_is_refused_by_name(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(settings))):
        BrokerConfig(**settings).validate()


@pytest.mark.parametrize(
    "settings",
    [
        {"registry": "zookeeper://h1:2181,h2:2181/penstock"},
        {"registry": "meta://1@h1:9092,2@h2:9092,3@h3:9092", "broker_id": 4},
        {"registry": "meta://1@h1:9092", "roles": ("broker", "meta")},
        {"replication_factor_default": 3, "internal_replication_factor": 1, "host": "rack 2"},
    ],
)
def test_settings_of_a_cluster(settings: dict[str, Any]) -> None:
    BrokerConfig(**settings).validate()


def test_a_registry_of_an_unknown_kind_names_the_kinds() -> None:
    with pytest.raises(InvalidConfig, match=r"meta://.* zookeeper://"):
        BrokerConfig(registry="etcd://ann:secret@h1:2379").validate()


@pytest.mark.parametrize("kind", ["zookeeper", "meta", "etcd"])
def test_the_password_is_nowhere_to_be_seen(kind: str) -> None:
    config = BrokerConfig(registry=f"{kind}://ann:secret@h1:x")
    assert "secret" not in repr(config)
    with pytest.raises(InvalidConfig) as wrong:
        config.validate()
    assert "secret" not in str(wrong.value)
    good = BrokerConfig(registry="zookeeper://ann:secret@h1:2181/penstock")
    assert good.registry_shown == "zookeeper://h1:2181/penstock"
