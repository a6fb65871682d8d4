"""Two protocols on one port: the first bytes of a connection tell which it is (R-NET-5).

Ours begin with its magic. A Kafka client begins with a length, whose first two bytes would be our
magic only for a frame of 1.3 GB, which nobody may send; nor one whose length is the beginning of
text or TLS (`strangers`). Not what either says. The invariant: a connection gets its session once,
from its first two bytes, and every byte of it is read by that session.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock.model.errors import PenstockError, ProtocolError
from penstock.net.connection import Connection
from penstock.net.server import Session
from penstock.net.strangers import Port, Stranger, is_strange
from penstock.protocol.frame import MAGIC

_MAGIC_BYTES: Final = MAGIC.to_bytes(2)


class ProtocolSwitch:
    """Stands in for a connection's session until the first bytes are there. The server keeps it
    for as long as the connection lives; the connection itself goes to the session directly."""

    __slots__ = ("_chosen", "_connection", "_make_kafka", "_make_native", "_port")

    def __init__(
        self,
        connection: Connection,
        port: Port,
        *,
        make_native: Callable[[Connection], Session],
        make_kafka: Callable[[Connection], Session] | None = None,
    ) -> None:
        """make_kafka: None where only our own protocol is spoken; its session says so then."""
        self._connection = connection
        self._port = port
        self._make_native = make_native
        self._make_kafka = make_kafka
        self._chosen: Session | None = None

    def measure(self, view: memoryview, start: int, end: int) -> int:
        if self._chosen is None:
            if end - start < len(_MAGIC_BYTES):
                return 0
            self._chosen = self._choose(bytes(view[start : start + len(_MAGIC_BYTES)]))
            self._connection.receiver = self._chosen
        return self._chosen.measure(view, start, end)

    def _choose(self, first: bytes) -> Session:
        if first != _MAGIC_BYTES and is_strange(first):
            return Stranger(self._connection, self._port)
        if first == _MAGIC_BYTES or self._make_kafka is None:
            return self._make_native(self._connection)
        return self._make_kafka(self._connection)

    def on_frame(self, frame: memoryview) -> None:
        assert self._chosen is not None
        self._chosen.on_frame(frame)

    def on_read_end(self) -> None:
        assert self._chosen is not None
        self._chosen.on_read_end()

    def on_protocol_error(self, error: ProtocolError) -> None:
        assert self._chosen is not None
        self._chosen.on_protocol_error(error)

    def on_closed(self, error: PenstockError | None) -> None:
        """Only where it came before the first bytes: there is nobody to tell."""
        assert self._chosen is None, error

    def ping(self) -> bool:
        return self._chosen is not None and self._chosen.ping()

    def drain(self) -> None:
        if self._chosen is None:
            self._connection.close()
        else:
            self._chosen.drain()
