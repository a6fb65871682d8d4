"""Settings are checked, and keywords and fields are the same."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from penstock.client.config import ClientConfig, ClientSettings
from penstock.client.consuming.settings import ConsumerConfig, ConsumerSettings
from penstock.client.producing.producer import ProducerConfig, ProducerSettings
from penstock.client.serving.serving import HandlingSettings, ServeConfig, ServeSettings
from penstock.client.sharing.settings import SharedConsumerConfig, SharedConsumerSettings
from penstock.model.errors import InvalidConfig


def typed_fields(config: Any) -> dict[str, Any]:
    types = get_type_hints(config)
    return {field.name: types[field.name] for field in fields(config)}


@pytest.mark.parametrize(
    ("settings", "config"),
    [
        (ClientSettings, ClientConfig),
        (ProducerSettings, ProducerConfig),
        (ConsumerSettings, ConsumerConfig),
        (SharedConsumerSettings, SharedConsumerConfig),
        (HandlingSettings, ServeConfig),
    ],
)
def test_every_setting_is_a_keyword(settings: type, config: Any) -> None:
    """R-OPS-7: of the type that it has, so that editors know it."""
    assert get_type_hints(settings) == typed_fields(config)


def test_what_is_served_can_be_told_what_its_consumer_can() -> None:
    of_either = {**typed_fields(SharedConsumerConfig), **typed_fields(ConsumerConfig)}
    known = {**of_either, **typed_fields(ServeConfig), "shared": bool}
    assert get_type_hints(ServeSettings) == known


@pytest.mark.parametrize("name", ["request_timeout_ms", "retry_backoff_ms", "route_refresh_ms"])
def test_times_are_positive(name: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} is 0"):
        ClientConfig(**{name: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"acks": 2}, '"all", 1 or 0'),
        ({"compression": "zip"}, "none, gzip, snappy, lz4, zstd"),
        ({"idempotent": True, "acks": 0}, "acks=0"),
        ({"linger_ms": -1}, "at least 0"),
        ({"batch_bytes": 10}, "from 1024"),
        ({"buffer_bytes": 2000}, "must hold a batch"),
        ({"delivery_timeout_ms": 0}, "at least 1"),
    ],
)
def test_a_producer_says_what_it_can_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        ProducerConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": ""}, "0 characters"),
        ({"group": "g" * 300}, "300 characters"),
        ({"buffer_bytes": 0}, "at least 1"),
        ({"max_wait_ms": 0}, "from 1 to"),
        ({"start": "begin"}, "earliest"),
        ({"on_out_of_range": "skip"}, "earliest"),
    ],
)
def test_a_consumer_says_what_it_can_be(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        ConsumerConfig(**settings)
