"""Where Kafka's clients reach a broker: a host and a port."""

from __future__ import annotations

from penstock.model.errors import InvalidConfig
from penstock.net.address import TcpAddress, parse_address


def host_and_port(address: str) -> tuple[str, int]:
    """Of a broker that is reached by TCP. A Unix socket is no address for a Kafka client."""
    parsed = parse_address(address)
    if not isinstance(parsed, TcpAddress):
        raise InvalidConfig(
            f"The broker advertises {address}, which no Kafka client can reach: set `advertise` to"
            " a host and a port."
        )
    return parsed.host, parsed.port
