"""The meta servers' address: what a person may write, and what is told if it is wrong."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.registry.meta_address import parse_meta


def test_each_server_has_an_id_and_an_address() -> None:
    """R-REP-5: brokers find the meta servers by this."""
    assert parse_meta("meta://1@h1:9092, 2@h2,30@[::1]:7") == {
        1: "h1:9092",
        2: "h2:9092",
        30: "[::1]:7",
    }
    assert parse_meta("meta://0@127.0.0.1:1") == {0: "127.0.0.1:1"}


@pytest.mark.parametrize("count", [2, 4, 6])
def test_an_even_number_is_refused_wherever_it_is_named(count: int) -> None:
    with pytest.raises(InvalidConfig, match=f"one, three or five meta servers, not {count}"):
        parse_meta("meta://" + ",".join(f"{number}@h{number}" for number in range(count)))


@pytest.mark.parametrize(
    "text",
    [
        "1@h1:9092",
        "meta://",
        "meta://h1:9092",
        "meta://@h1:9092",
        "meta://1@",
        "meta://1@:9092",
        "meta://1@h1:0",
        "meta://1@unix:/tmp/socket",
        "meta://1@h1,",
        "meta://1@h1,1@h2",
        "meta://1@h1,2@h1:9092",
        "meta://-1@h1",
        "meta://1_0@h1",
        "meta://²@h1",
        "meta://2147483648@h1",
        "meta://99999999999999999999@h1",
        "meta://1@h1/path",
        "meta://" + ",".join(f"{number}@h{number}" for number in range(10)),
    ],
)
def test_what_cannot_be_used(text: str) -> None:
    with pytest.raises(InvalidConfig, match="cannot be used"):
        parse_meta(text)
