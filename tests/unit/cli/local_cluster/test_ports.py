"""Free ports are free, and stay the broker's."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.cli.local_cluster import ports
from penstock.model.errors import InvalidConfig
from penstock.net.address import TcpAddress


def test_no_port_is_one_of_outgoing_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(ports.free_port("127.0.0.1") < low for _ in range(20))
    monkeypatch.setattr(ports, "_RANGE", Path("/no/such/file"))
    assert ports.free_port("127.0.0.1") < 32768


def test_a_port_in_use_or_taken_is_not_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        taken = ports.free_port("127.0.0.1")
        free = ports.free_port("127.0.0.1", {taken})
        drawn = iter([used.getsockname()[1], taken, free])
        monkeypatch.setattr("random.randrange", lambda low, high: next(drawn))
        assert ports.free_port("127.0.0.1", {taken}) == free


def test_a_host_that_is_not_ours_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([10_000])
    monkeypatch.setattr("random.randrange", lambda low, high: next(drawn))
    with pytest.raises(InvalidConfig, match=r"Cannot listen on 192\.0\.2\.1"):
        ports.free_port("192.0.2.1")


def test_an_address_in_use_or_named_twice_is_one_sentence() -> None:
    free = TcpAddress("127.0.0.1", ports.free_port("127.0.0.1"))
    ports.check_free([free])
    ports.check_free([free])
    with pytest.raises(InvalidConfig, match=f"Cannot listen on {free}"):
        ports.check_free([free, free])
