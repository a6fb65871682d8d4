"""What a consumer asks its broker for."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.client.consuming.settings import ConsumerConfig
from penstock.client.reading.filters import make_filter
from penstock.model.errors import InvalidConfig
from penstock.protocol import penstock_pb2 as pb


def test_nothing_said_is_no_filter() -> None:
    assert make_filter(None, (), None, None) is None
    assert make_filter("", [], None, None) is None


def test_all_that_is_said_is_sent() -> None:
    """R-DEL-12: tags, key equality and prefix, and an expression."""
    assert make_filter("a = 1", ["x", "y"], b"k", b"p") == pb.Filter(
        expression="a = 1", tags=["x", "y"], key=b"k", key_prefix=b"p"
    )
    found = make_filter(None, (), b"", None)
    assert found is not None
    assert found.HasField("key"), "an empty key is a key"
    assert not found.HasField("key_prefix")


def test_a_tag_may_stand_alone() -> None:
    assert make_filter(None, "paid", None, None) == pb.Filter(tags=["paid"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"key": "alice"}, "The key is 'alice': give bytes"),
        ({"key_prefix": "a"}, "The key_prefix is 'a': give bytes"),
        ({"tags": [b"paid"]}, "give text"),
        ({"filter": b"a = 1"}, "give text"),
        ({"filter": "a = '\ud800'"}, "no text of Unicode"),
        ({"tags": ["\ud800"]}, "no text of Unicode"),
    ],
)
def test_wrong_types_are_told_at_once(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        ConsumerConfig(**settings)
