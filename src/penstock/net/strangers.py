"""Who speaks none of the port's protocols, but something that is known: text, as HTTP is, or TLS.

Browsers, health checks and clients with other settings come to this port; without this they would
be told of "a Kafka frame of 1195725856 bytes". Not the errors of the port's own protocols. The
invariant: the first two bytes say that it is a stranger, since as the length of a Kafka frame they
would be far too much; who it is, its first word does.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Final

from penstock.model.errors import PenstockError, ProtocolError
from penstock.model.limits import FRAME_BYTES_MAX
from penstock.net.connection import Connection

logger = logging.getLogger(__name__)

# A record of a handshake, of any version from SSL 3 to TLS 1.3 (RFC 8446, 5.1).
_TLS_START: Final = b"\x16\x03"
_PRINTABLE: Final = range(0x20, 0x7F)
assert min(0x2020, int.from_bytes(_TLS_START)) << 16 > FRAME_BYTES_MAX

# A method, which may be anything, and the beginning of what it is for (RFC 9112, 3). HTTP/2 without
# an upgrade begins with a method of its own.
_HTTP: Final = re.compile(rb"[a-z-]{2,16} [/*]|connect ", re.IGNORECASE)
_PERHAPS_HTTP: Final = re.compile(rb"[a-z-]{2,16} ?", re.IGNORECASE)
_HEAD: Final = b"HEAD "
_SHOWN_BYTES: Final = 32

_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What a port is for, as those are told who came to it by mistake."""

    speaks: str
    """Its protocols."""
    advice: str
    """What to do instead."""


def is_strange(start: bytes) -> bool:
    """Whether a connection that begins with these two bytes is for a `Stranger`."""
    return start == _TLS_START or all(byte in _PRINTABLE for byte in start)


class Stranger:
    """The session of a connection that begins with text or TLS: HTTP is told what this port is, and
    everybody is closed when there was time to read that."""

    __slots__ = ("_answer", "_connection", "_port")

    def __init__(self, connection: Connection, port: Port) -> None:
        self._connection = connection
        self._port = port
        self._answer = b""

    def measure(self, view: memoryview, start: int, end: int) -> int:
        beginning = bytes(view[start : min(end, start + _SHOWN_BYTES)])
        if beginning.startswith(_TLS_START):
            raise ProtocolError(
                "it begins with TLS, which this port does not speak: let it connect without "
                "(security.protocol=PLAINTEXT)."
            )
        port = self._port
        if _HTTP.match(beginning):
            body = f"This port speaks {port.speaks}, and no HTTP: {port.advice}.\n".encode()
            self._answer = _HTTP_ANSWER % len(body)
            if not beginning.upper().startswith(_HEAD):
                self._answer += body
            raise ProtocolError(f"it speaks HTTP, and this port {port.speaks}: {port.advice}.")
        if _PERHAPS_HTTP.fullmatch(beginning):
            return 0
        line = ascii(beginning.splitlines()[0].decode("latin-1"))
        raise ProtocolError(
            f"it begins with {line}, and this port speaks {port.speaks}: {port.advice}."
        )

    def on_frame(self, frame: memoryview) -> None:
        raise AssertionError(f"{len(frame)} bytes of it are no frame")

    def on_read_end(self) -> None:
        """Nothing of it is used."""

    def on_protocol_error(self, error: ProtocolError) -> None:
        logger.info("%s is disconnected: %s", self._connection.peer, error)
        if self._answer:
            self._connection.send(self._answer)

    def on_closed(self, error: PenstockError | None) -> None:
        """There is nothing to forget."""

    def ping(self) -> bool:
        return False

    def drain(self) -> None:
        self._connection.close(linger=True)
