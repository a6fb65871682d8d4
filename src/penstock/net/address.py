"""Addresses as people write them: host:port, [v6]:port, :port, host, unix:/path.

Not here: names resolved and sockets opened (`net.sockets`). Invariant: the text of a parsed
address parses to the same address again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.model.errors import InvalidConfig

# Kafka's port, because Kafka's clients are spoken to on it as well.
PORT_DEFAULT: Final = 9092
PORT_MAX: Final = 65535
# sun_path has 108 bytes on Linux and 104 on BSD, one of them for the closing zero.
UNIX_PATH_BYTES_MAX: Final = 103

_UNIX_PREFIX: Final = "unix:"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A host and a port. No host: every interface to listen on, this machine to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A socket file on this machine."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX_PREFIX}{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str, port_default: int = PORT_DEFAULT) -> Address:
    """The address that the text names, or InvalidConfig that says what is wrong with it."""
    text = text.strip()
    if text.startswith(_UNIX_PREFIX):
        return _parse_unix(text)
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not host or (rest and not rest.startswith(":")):
            raise _wrong(text, "an IPv6 address stands in brackets, as in [::1]:9092")
        colon, port = rest[:1], rest[1:]
    elif text.count(":") > 1:
        raise _wrong(text, "put an IPv6 address in brackets, as in [::1]:9092")
    else:
        host, colon, port = text.partition(":")
    if not host and not colon:
        raise _wrong(text, "write host:port, as in 127.0.0.1:9092")
    if any(character.isspace() or character in "/,@[]" for character in host):
        raise _wrong(text, "the host has a character that no host name has")
    return TcpAddress(host, _parse_port(text, port) if colon else port_default)


def _parse_unix(text: str) -> UnixAddress:
    path = text.removeprefix(_UNIX_PREFIX)
    if not path or "\0" in path:
        raise _wrong(text, "write unix: and the path of the socket file")
    if len(path.encode(errors="surrogateescape")) > UNIX_PATH_BYTES_MAX:
        raise _wrong(text, f"the path of a socket file has at most {UNIX_PATH_BYTES_MAX} bytes")
    return UnixAddress(path)


def _parse_port(text: str, port: str) -> int:
    if not (port.isascii() and port.isdigit() and len(port) <= len(str(PORT_MAX))):
        raise _wrong(text, f"the port is a number from 0 to {PORT_MAX}")
    if int(port) > PORT_MAX:
        raise _wrong(text, f"the port is a number from 0 to {PORT_MAX}")
    return int(port)


def _wrong(text: str, advice: str) -> InvalidConfig:
    return InvalidConfig(f"The address {text[:200]!r} cannot be used: {advice}.")
