"""Which meta servers there can be; how they are written is tested with `registry.meta_address`."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.registry.metaserver.config import parse_meta


@pytest.mark.parametrize("count", [1, 3, 5])
def test_so_many_may_be(count: int) -> None:
    config = parse_meta("meta://" + ",".join(f"{number}@h{number}:7" for number in range(count)))
    assert dict(config.servers) == {number: f"h{number}:7" for number in range(count)}
    assert parse_meta(str(config)) == config


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("meta://1@h1:1,2@h2:1", "one, three or five meta servers, not 2"),
        ("meta://1@a:1,2@b:1,3@c:1,4@d:1", "not 4"),
        ("zookeeper://1@h:1", "begins with meta://"),
        ("meta://h1:7000", "id@host:port"),
    ],
)
def test_others_may_not(text: str, reason: str) -> None:
    with pytest.raises(InvalidConfig, match=reason):
        parse_meta(text)
