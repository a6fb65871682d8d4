"""Where the meta servers are, as people write it."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.registry.metaserver.config import parse_meta, parse_servers


def test_what_can_be_written() -> None:
    config = parse_meta("meta://1@h1:7000,2@[::1]:7001,3@h3")
    assert dict(config.servers) == {1: "h1:7000", 2: "[::1]:7001", 3: "h3:9092"}
    assert parse_meta(str(config)) == config
    assert parse_servers("0@localhost:7000") == {0: "localhost:7000"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("zookeeper://1@h:1", "begins with meta://"),
        ("meta://", "its id, an @ and its address"),
        ("meta://h1:7000", "its id, an @"),
        ("meta://x@h1:7000", "its id, an @"),
        ("meta://-1@h1:7000", "its id, an @"),
        ("meta://99999999999@h1:7000", "its id, an @"),
        ("meta://1@:7000", "a host and a port"),
        ("meta://1@h1:0", "a host and a port"),
        ("meta://1@h1:x", "cannot be used"),
        ("meta://1@h1:1,1@h2:1,2@h3:1", "two servers 1"),
        ("meta://1@h1:1,2@h2:1", "one, three or five servers, not 2"),
        ("meta://1@a:1,2@b:1,3@c:1,4@d:1,5@e:1,6@f:1,7@g:1", "not 7"),
    ],
)
def test_what_cannot(text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        parse_meta(text)
