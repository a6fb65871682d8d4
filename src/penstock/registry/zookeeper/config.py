"""How ZooKeeper is named and treated: `zookeeper://user:password@h1:2181,h2:2181/chroot`.

Not the connection. The invariant: the password is in no representation and in no error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from penstock.model.errors import InvalidConfig
from penstock.net.address import TcpAddress, parse_address

SCHEME: Final = "zookeeper://"
PORT_DEFAULT: Final = 2181


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConfig:
    """Which servers, where in their tree, as whom, and how patiently (R-REP-4)."""

    servers: tuple[TcpAddress, ...]
    chroot: str = ""
    """The znode that everything is under, with a leading slash; empty for the root."""
    user: str = ""
    password: str = field(default="", repr=False)
    session_timeout_ms: int = 5_000
    """A broker of which ZooKeeper hears nothing for so long is dead to the cluster."""
    retry_delay_ms: int = 1_000
    """Between two attempts of a call, and at most between two attempts to connect."""
    retries: int = 3
    """After so many a call gives up. Connecting never does."""

    @property
    def patience_s(self) -> float:
        """How long a call waits for a connection."""
        return self.retries * self.retry_delay_ms / 1000

    def __str__(self) -> str:
        return f"{SCHEME}{','.join(map(str, self.servers))}{self.chroot}"


def parse_zookeeper(text: str) -> ZooKeeperConfig:
    """What the text names, or InvalidConfig that says how to write it."""
    if not text.startswith(SCHEME):
        raise _wrong("it begins with zookeeper://")
    place = text.removeprefix(SCHEME)
    # A password may have any character: the last @ ends it.
    credentials, at, rest = place.rpartition("@")
    servers, slash, path = rest.partition("/")
    user, colon, password = credentials.partition(":")
    if at and not (user and colon and password):
        raise _wrong("a user and a password stand before the servers as user:password@")
    return ZooKeeperConfig(
        servers=tuple(_server(server) for server in servers.split(",")),
        chroot=_chroot(slash + path),
        user=unquote(user),
        password=unquote(password),
    )


def _server(text: str) -> TcpAddress:
    address = parse_address(text, PORT_DEFAULT)
    if not isinstance(address, TcpAddress) or not address.host or not address.port:
        raise _wrong("a server is host:port, and several are separated by commas")
    return address


def _chroot(path: str) -> str:
    path = path.rstrip("/")
    for name in path.split("/")[1:]:
        if not name.isprintable() or not name.strip() or name in (".", "..", "zookeeper"):
            raise _wrong("the path after the servers is made of names, as in /penstock/test")
    return path


def _wrong(advice: str) -> InvalidConfig:
    return InvalidConfig(
        f"The registry's address cannot be used: {advice}; "
        "write zookeeper://user:password@host:2181,host:2181/path, where user and path may be "
        "left out."
    )
