"""Where the meta servers are, as people write it: `1@h1:9092,2@h2:9092,3@h3:9092`; as a registry's
address with `meta://` before it.

Not the connections. The invariant: one, three or five servers, each with an id of its own, at
addresses that can be connected to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.model.limits import BROKER_ID_MAX
from penstock.net.address import TcpAddress, parse_address

SCHEME: Final = "meta://"
# An even number survives no more failures than one server less.
_SIZES: Final = (1, 3, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaConfig:
    """Which servers, and how patiently (R-REP-5)."""

    servers: Mapping[int, str]
    """Their addresses by their ids."""
    patience_ms: int = 8_000
    """How long a change waits for a server that leads: an election takes two seconds or so."""
    heartbeat_ms: int = 1_000
    """Between two signs of life; less if the servers have short sessions."""

    def __str__(self) -> str:
        return SCHEME + ",".join(f"{number}@{place}" for number, place in self.servers.items())


def parse_meta(text: str) -> MetaConfig:
    """What a registry's address names, or InvalidConfig that says how to write it."""
    if not text.startswith(SCHEME):
        raise _wrong("it begins with meta://")
    return MetaConfig(servers=parse_servers(text.removeprefix(SCHEME)))


def parse_servers(text: str) -> dict[int, str]:
    """The servers' addresses by their ids, or InvalidConfig that says how to write them."""
    servers: dict[int, str] = {}
    for part in text.split(","):
        number, at, place = part.strip().partition("@")
        if not (at and number.isascii() and number.isdigit() and int(number) <= BROKER_ID_MAX):
            raise _wrong("a server is its id, an @ and its address")
        address = parse_address(place)
        if isinstance(address, TcpAddress) and not (address.host and address.port):
            raise _wrong("a server's address has a host and a port")
        if int(number) in servers:
            raise _wrong(f"there are two servers {number}")
        servers[int(number)] = str(address)
    if len(servers) not in _SIZES:
        raise _wrong(f"there are one, three or five servers, not {len(servers)}")
    return servers


def _wrong(advice: str) -> InvalidConfig:
    return InvalidConfig(
        f"The meta servers cannot be used so: {advice}; "
        "write 1@host:9092,2@host:9092,3@host:9092, as a registry with meta:// before it."
    )
