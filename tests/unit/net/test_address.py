"""Addresses as people write them."""

from __future__ import annotations

import pytest

from penstock.model.errors import InvalidConfig
from penstock.net.address import Address, TcpAddress, UnixAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", TcpAddress("127.0.0.1", 9092)),
        ("broker-1.example.com:1", TcpAddress("broker-1.example.com", 1)),
        ("localhost", TcpAddress("localhost", 9092)),
        (":65535", TcpAddress("", 65535)),
        ("[::1]:19092", TcpAddress("::1", 19092)),
        ("[fe80::1%eth0]", TcpAddress("fe80::1%eth0", 9092)),
        (" host:0 ", TcpAddress("host", 0)),
        ("unix:/run/penstock.sock", UnixAddress("/run/penstock.sock")),
        ("unix:relative", UnixAddress("relative")),
    ],
)
def test_what_people_write(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


def test_the_default_port_is_the_callers_choice() -> None:
    assert parse_address("host", port_default=1234) == TcpAddress("host", 1234)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("", "write host:port"),
        ("::1:9092", "in brackets"),
        ("[::1", "in brackets"),
        ("[]:9092", "in brackets"),
        ("[::1]9092", "in brackets"),
        ("host:", "the port is a number"),
        ("host:port", "the port is a number"),
        ("host:-1", "the port is a number"),
        ("host:65536", "the port is a number"),
        ("host:" + "9" * 5000, "the port is a number"),
        ("host:٣", "the port is a number"),
        ("http//host:1", "no host name has"),
        ("a,b:1", "no host name has"),
        ("unix:", "path of the socket file"),
        ("unix:/" + "x" * 103, "at most 103 bytes"),
    ],
)
def test_what_cannot_be_used_is_explained(text: str, advice: str) -> None:
    with pytest.raises(InvalidConfig, match=advice) as caught:
        parse_address(text)
    assert len(caught.value.message) < 400
