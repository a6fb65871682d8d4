"""Who speaks neither of the two protocols, but one that is known: HTTP, or TLS.

Browsers, health checks and clients with other settings come to this port; without this they would
be told of "a Kafka frame of 1195725856 bytes". Not the two protocols' own errors. The invariant:
the first two bytes are enough, since as the length of a Kafka frame they would be far too much.
"""

from __future__ import annotations

import logging
from typing import Final

from penstock.model.errors import PenstockError, ProtocolError
from penstock.model.limits import FRAME_BYTES_MAX
from penstock.net.connection import Connection

logger = logging.getLogger(__name__)

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT", "TRACE")
# HTTP/2 without an upgrade begins with a method of its own.
_HTTP_STARTS: Final = {method[:2].encode() for method in (*_METHODS, "PRI")}
_HEAD_START: Final = b"HE"
# A record of a handshake, of any version from SSL 3 to TLS 1.3 (RFC 8446, 5.1).
_TLS_START: Final = b"\x16\x03"
assert min(int.from_bytes(start) << 16 for start in {*_HTTP_STARTS, _TLS_START}) > FRAME_BYTES_MAX

_HTTP_BODY: Final = (
    b"This port speaks Kafka's protocol and Penstock's own, and no HTTP: "
    b"use a Kafka client or `penstock` with this address.\n"
)
_HTTP_ANSWER: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(_HTTP_BODY)
)


def is_strange(start: bytes) -> bool:
    """Whether a connection that begins with these two bytes is for a `Stranger`."""
    return start in _HTTP_STARTS or start == _TLS_START


class Stranger:
    """The session of a connection that begins with HTTP or TLS: told what this port is, and closed
    when it has had time to read that."""

    __slots__ = ("_connection", "_start")

    def __init__(self, connection: Connection, start: bytes) -> None:
        self._connection = connection
        self._start = start

    def measure(self, view: memoryview, start: int, end: int) -> int:
        del view, start, end
        if self._start == _TLS_START:
            raise ProtocolError(
                "it begins with TLS, which this port does not speak: let it connect without "
                "(security.protocol=PLAINTEXT)."
            )
        raise ProtocolError(
            "it speaks HTTP, and this port Kafka's protocol and Penstock's own: use a Kafka client "
            "or `penstock` with this address."
        )

    def on_frame(self, frame: memoryview) -> None:
        raise AssertionError(f"{len(frame)} bytes of it are no frame")

    def on_read_end(self) -> None:
        """Nothing of it is used."""

    def on_protocol_error(self, error: ProtocolError) -> None:
        logger.info("%s is disconnected: %s", self._connection.peer, error)
        if self._start == _HEAD_START:
            self._connection.send(_HTTP_ANSWER)
        elif self._start != _TLS_START:
            self._connection.send(_HTTP_ANSWER + _HTTP_BODY)

    def on_closed(self, error: PenstockError | None) -> None:
        """There is nothing to forget."""

    def ping(self) -> bool:
        return False

    def drain(self) -> None:
        self._connection.close(linger=True)
