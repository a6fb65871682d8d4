"""One Kafka client's connection: requests in, answers out in the same order.

Kafka's clients match answers to requests by their order, and rely on a request being handled after
the one before it. So nothing is handled while a request is under way, except that produce requests
may follow one another at once: their order is that of the log. The invariant: answers leave in the
order of the requests, and when the connection is gone nothing refers to it any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol, cast

from penstock.broker.clients.waiters import Waiters
from penstock.broker.kafka.call import Call, Parts
from penstock.broker.kafka.fetch_sessions import FetchSessions
from penstock.broker.kafka.share_sessions import ShareSessions
from penstock.model.errors import PenstockError, ProtocolError, StorageError, UnsupportedVersion
from penstock.model.limits import KAFKA_PRODUCES_IN_FLIGHT_MAX, KAFKA_REQUEST_BYTES_MAX
from penstock.net.connection import Connection, Pause
from penstock.protocol.kafka import frames
from penstock.protocol.kafka.apis import (
    API_VERSIONS,
    APIS,
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    HEARTBEAT,
    JOIN_GROUP,
    PRODUCE,
    SHARE_FETCH,
    SHARE_GROUP_HEARTBEAT,
)
from penstock.protocol.kafka.codec import read_message
from penstock.protocol.kafka.frames import body_position, encode_answer, read_head

logger = logging.getLogger(__name__)

# As Kafka's connections.max.idle.ms: there is no way to ask a Kafka client whether it is there.
IDLE_S_MAX: Final = 10 * 60
# What consumers ask on the connections by which they look for topics, too.
_READING: Final = frozenset(
    api.key
    for api in (
        FETCH,
        JOIN_GROUP,
        HEARTBEAT,
        CONSUMER_GROUP_HEARTBEAT,
        SHARE_GROUP_HEARTBEAT,
        SHARE_FETCH,
    )
)
_API_KEY: Final = Struct(f">{frames.LENGTH_BYTES}xh")


class Dispatch(Protocol):
    """What is done with a session's requests."""

    def __call__(self, call: Call, /) -> None: ...


class KafkaSession(Waiters):
    """Made by the broker for a connection whose first bytes are not of our own protocol."""

    __slots__ = (
        "_active_at",
        "_calls",
        "_dispatch",
        "_frame_bytes_max",
        "_is_draining",
        "_is_held",
        "_loop",
        "_on_read_end",
        "connection",
        "fetch_sessions",
        "is_reader",
        "principal",
        "share_sessions",
    )

    def __init__(
        self,
        connection: Connection,
        dispatch: Dispatch,
        *,
        on_read_end: Callable[[], None],
        frame_bytes_max: int,
        fetch_sessions: FetchSessions,
        share_sessions: ShareSessions,
    ) -> None:
        """fetch_sessions and share_sessions: those of all clients, for the handlers of what was
        said on this connection."""
        super().__init__()
        self.connection = connection
        self.fetch_sessions = fetch_sessions
        self.share_sessions = share_sessions
        self._dispatch = dispatch
        self._on_read_end = on_read_end
        self._frame_bytes_max = frame_bytes_max
        self._loop = asyncio.get_running_loop()
        self._active_at = self._loop.time()
        # Requests that have no answer yet, and answers that wait for one before them.
        self._calls: deque[Call] = deque()
        # The next request, of whichever kind, waits until these are answered.
        self._is_held = False
        self._is_draining = False
        # As with a session of our own protocol.
        self.principal: str | None = None
        # Whether it is a consumer's: its wish for a topic is another than a producer's.
        self.is_reader = False

    @property
    def client_host(self) -> str:
        """As Kafka shows it to people who list the members of a group."""
        return "/" + self.connection.peer.rsplit(":", 1)[0].strip("[]")

    @property
    def is_open(self) -> bool:
        """Whether what is tied to the connection's end will see it."""
        return not self.connection.is_closed

    # --- the session's life, for a server ------------------------------------------------------

    def ping(self) -> bool:
        if not self._calls and self._loop.time() - self._active_at > IDLE_S_MAX:
            self.connection.close()
        return False

    def drain(self) -> None:
        if self.connection.is_closed:
            return  # it lingers: it reads until its client closes too, and must not be kept from it
        self._is_draining = True
        self.connection.pause_reading(Pause.DRAINING)
        if not self._calls:
            self.connection.close(linger=True)

    # --- what the connection delivers ----------------------------------------------------------

    def measure(self, view: memoryview, start: int, end: int) -> int:
        try:
            frame_bytes = frames.measure(
                view, start, end, self._frame_bytes_max, KAFKA_REQUEST_BYTES_MAX
            )
        except ProtocolError as error:
            self.on_protocol_error(error)
            return 0
        if (
            frame_bytes
            and self._calls
            and (self._is_held or _API_KEY.unpack_from(view, start)[0] != PRODUCE.key)
        ):
            # It is to see what those before it did: it stays where it is until then. Only now is
            # the connection not read any more, so that the end of a client that waits is seen.
            self._is_held = True
            self.connection.pause_reading(Pause.CALLS_IN_FLIGHT)
            return 0
        return frame_bytes

    def on_frame(self, frame: memoryview) -> None:
        self._active_at = self._loop.time()
        try:
            call = self._read(frame)
        except ProtocolError as error:
            # Not raised on: its traceback would keep the frame, which may be large.
            self.on_protocol_error(error)
            return
        calls = self._calls
        calls.append(call)
        if call.api.key in _READING:
            self.is_reader = True
        self._dispatch(call)
        if calls and (call.api is not PRODUCE or len(calls) >= KAFKA_PRODUCES_IN_FLIGHT_MAX):
            self._is_held = True

    def _read(self, frame: memoryview) -> Call:
        key, version, correlation_id, client_id, position = read_head(frame)
        api = APIS.get(key)
        if api is None or not api.has(version):
            if api is not API_VERSIONS:
                raise UnsupportedVersion(
                    f"There is no version {version} of Kafka's API {key} here."
                )
            # KIP-511: answered so that the client learns which versions it may use.
            return Call(self, api, 0, correlation_id, client_id, None)
        is_flexible = api.is_flexible(version)
        position = body_position(api, version, frame, position)
        # Kafka does not look at what may follow, and librdkafka 2.16 relies on that: its request
        # for the metadata of all topics is three bytes too long.
        request = read_message(
            api.request, version, is_flexible, frame, position, may_have_more=True
        )
        return Call(self, api, version, correlation_id, client_id, request)

    def on_read_end(self) -> None:
        self._on_read_end()

    def on_protocol_error(self, error: ProtocolError) -> None:
        """Kafka's protocol has no way to say so: the end of the connection is the answer, after
        those to the requests before."""
        logger.info("%s is disconnected: %s", self.connection.peer, error)
        self.drain()

    def on_closed(self, error: PenstockError | None) -> None:
        del error
        self._calls.clear()
        self.end_waiting()

    # --- answers -------------------------------------------------------------------------------

    def answered(self, call: Call, response: object) -> None:
        """Send the answer as soon as those before it have left; no response: send none."""
        assert call.parts is None, "answered twice"
        call.parts = []
        if response is not None:
            try:
                call.parts = encode_answer(call.api, call.version, call.correlation_id, response)
            except Exception:
                # A bug of ours, which must not reach whoever brought the answer about.
                logger.exception("An answer to Kafka's %s cannot be written", call.api.name)
                call.ends_connection = True
        self._send_answers()

    def unanswerable(self, call: Call, error: PenstockError) -> None:
        """End the connection when the answers before this one have left."""
        assert call.parts is None, "answered twice"
        logger.info(
            "%s is disconnected, since its %s cannot be answered: %s",
            self.connection.peer,
            call.api.name,
            error,
        )
        call.parts = []
        call.ends_connection = True
        self._send_answers()

    def _send_answers(self) -> None:
        calls = self._calls
        while calls and calls[0].parts is not None:
            call = calls.popleft()
            if call.parts:
                self._send(call.parts)
            elif call.ends_connection:
                calls.clear()
                self.connection.close(linger=True)
        if not calls:
            if self._is_held:
                self._is_held = False
                self.connection.resume_reading(Pause.CALLS_IN_FLIGHT)
            if self._is_draining:
                self.connection.close(linger=True)

    def _send(self, parts: Parts) -> None:
        if len(parts) == 1:
            self.connection.send(bytes(cast(bytearray, parts[0])))
            return
        head = b""
        try:
            for part in parts:
                if isinstance(part, bytearray):
                    head = bytes(part)
                else:
                    self.connection.send_slice(head, part)
                    head = b""
            if head:
                self.connection.send(head)
        except StorageError as error:
            # A part of the frame may have left already, so it cannot become an error.
            logger.error("Sending to %s failed: %s", self.connection.peer, error)
            self.connection.abort(error)
