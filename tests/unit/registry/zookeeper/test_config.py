"""ZooKeeper's address: what a person may write, and what is told if it is wrong."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.net.address import TcpAddress
from penstock.registry.zookeeper.config import ZooKeeperConfig, parse_zookeeper


def test_everything_that_can_be_named() -> None:
    config = parse_zookeeper("zookeeper://ann:p%40ss:w@h1:2182,h2,[::1]:7/penstock/test/")
    assert config.servers == (
        TcpAddress("h1", 2182),
        TcpAddress("h2", 2181),
        TcpAddress("::1", 7),
    )
    assert (config.user, config.password) == ("ann", "p@ss:w")
    assert config.chroot == "/penstock/test"
    assert str(config) == "zookeeper://h1:2182,h2:2181,[::1]:7/penstock/test"


def test_the_least() -> None:
    """R-REP-4: session 5 s, backoff 1 s × 3."""
    config = parse_zookeeper("zookeeper://h1")
    assert config == ZooKeeperConfig(servers=(TcpAddress("h1", 2181),))
    assert (config.session_timeout_ms, config.retry_delay_ms, config.retries) == (5000, 1000, 3)
    assert config.patience_s == 3
    assert parse_zookeeper("zookeeper://h1/").chroot == ""


def test_the_password_is_nowhere_to_be_seen() -> None:
    config = parse_zookeeper("zookeeper://ann:secret@h1")
    assert "secret" not in f"{config} {config!r}"
    with pytest.raises(InvalidConfig) as wrong:
        parse_zookeeper("zookeeper://ann:secret@h1:x")
    assert "secret" not in str(wrong.value)


@pytest.mark.parametrize(
    "text",
    [
        "h1:2181",
        "zookeeper://",
        "zookeeper:///penstock",
        "zookeeper://h1,,h2",
        "zookeeper://h1:0",
        "zookeeper://unix:/tmp/socket",
        "zookeeper://ann@h1",
        "zookeeper://ann:@h1",
        "zookeeper://:secret@h1",
        "zookeeper://h1/a//b",
        "zookeeper://h1/a/../b",
        "zookeeper://h1/zookeeper",
        "zookeeper://h1/a\x00",
    ],
)
def test_what_cannot_be_used(text: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot be used"):
        parse_zookeeper(text)
