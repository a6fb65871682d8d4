"""How the meta servers are named: `meta://1@h1:9092,2@h2:9092,3@h3:9092`, each with its id.

Not the connection. The invariant: ids and addresses are told once each, and every address can be
connected to.
"""

from __future__ import annotations

from typing import Final

from penstock.model.errors import InvalidConfig
from penstock.model.limits import BROKER_ID_MAX, META_SERVERS_MAX
from penstock.net.address import TcpAddress, parse_address

SCHEME: Final = "meta://"
# An even number survives no more failures than one server less.
_SIZES: Final = (1, 3, 5)


def parse_meta(text: str) -> dict[int, str]:
    """The servers' addresses by their ids, or InvalidConfig that says how to write them."""
    if not text.startswith(SCHEME):
        raise _wrong("it begins with meta://")
    named = text.removeprefix(SCHEME).split(",")
    if len(named) > META_SERVERS_MAX:
        raise _wrong(f"there can be at most {META_SERVERS_MAX} meta servers")
    servers = dict(_server(server) for server in named)
    if len(servers) < len(named):
        raise _wrong("two servers have one id")
    if len(set(servers.values())) < len(named):
        raise _wrong("two servers have one address")
    if len(servers) not in _SIZES:
        raise InvalidConfig(
            f"There are one, three or five meta servers, not {len(servers)}: name another, or one "
            "less, on all of them and on all brokers."
        )
    return servers


def _server(text: str) -> tuple[int, str]:
    number, at, place = text.strip().partition("@")
    # int() takes signs, underscores and other alphabets' digits as well.
    if not at or not (number.isascii() and number.isdigit()) or len(number) > 10:
        raise _wrong("a server is id@host:port, and several are separated by commas")
    if int(number) > BROKER_ID_MAX:
        raise _wrong(f"an id is at most {BROKER_ID_MAX}")
    address = parse_address(place)
    if not isinstance(address, TcpAddress) or not address.host or not address.port:
        raise _wrong("a server is id@host:port, and several are separated by commas")
    return int(number), str(address)


def _wrong(advice: str) -> InvalidConfig:
    return InvalidConfig(
        f"The registry's address cannot be used: {advice}; "
        "write meta://1@host:9092,2@host:9092,3@host:9092."
    )
