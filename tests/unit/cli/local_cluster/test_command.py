"""A broker as a child: what its command line and its environment tell it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.broker.config import BrokerConfig
from penstock.cli import settings
from penstock.cli.local_cluster.command import broker_program


def test_the_command_makes_the_broker_that_was_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATA", "somewhere-else")
    monkeypatch.setenv("PENSTOCK_CONFIG", "other.toml")
    config = BrokerConfig(
        broker_id=2,
        data="data/broker-2",
        listen=("127.0.0.1:9093", "[::1]:9093"),
        registry="zookeeper://ann:secret@h1:2181/penstock",
        host="here",
        auto_create_topics=False,
        shutdown_timeout_ms=1_000,
    )
    config = replace(config, topic_defaults=replace(config.topic_defaults, durability="os"))
    program = broker_program(config, "debug")
    assert program.name == "broker 2"
    assert program.stop_seconds_max == 21
    up = list(program.command).index("up")
    arguments = program.command[up + 1 :]
    given = [(flag[2:], value) for flag, value in zip(arguments[::2], arguments[1::2], strict=True)]
    assert given.pop() == ("log-level", "debug")
    assert settings.load(flags=given, environment=program.environment) == config
    assert "PENSTOCK_CONFIG" not in program.environment
    assert not any("secret" in argument for argument in program.command)
