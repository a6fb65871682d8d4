"""The push streams of all clients, and whose turn it is on a connection (R-DEL-6).

A connection's streams take turns, one delivery each, and only while little is unsent: so a client
that does not read costs the broker no more than that, whatever credit it gave, and a busy partition
does not hold up the others. Not what a stream sends: that is `broker.delivery.push.stream`. The
invariants: a connection has no more streams than the limit; when it ends it has none.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Final

from penstock.broker.clients.session import Session
from penstock.broker.config import BrokerConfig
from penstock.broker.delivery.push.operator_parks import OperatorParks
from penstock.broker.delivery.push.sources import Source
from penstock.broker.delivery.push.stream import PushStream
from penstock.coordination.delivery.push import PushSettings
from penstock.model.errors import InvalidRequest, TooManySubscriptions, UnknownStream
from penstock.model.limits import (
    PUSH_DELIVERY_BYTES_MAX,
    PUSH_LOADS_PER_TURN_MAX,
    PUSH_STREAMS_MAX,
    PUSH_STREAMS_PER_CONNECTION_MAX,
    PUSH_UNSENT_BYTES_MAX,
    PUSH_WINDOW_DELIVERIES,
)
from penstock.net.channel import Channel
from penstock.net.clock import Clock
from penstock.protocol import penstock_pb2 as pb

_NONE: Final[tuple[PushStream, ...]] = ()


class Pushes:
    """One per broker. All calls come from the event loop."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self._settings = PushSettings(
            window=PUSH_WINDOW_DELIVERIES,
            timeout_ms=config.push_timeout_ms,
            retry_ms=config.push_retry_ms,
            delivery_bytes_max=min(PUSH_DELIVERY_BYTES_MAX, config.frame_bytes_max // 2),
        )
        self._connections: dict[Session, _ConnectionPushes] = {}
        self._stream_count = 0
        self.parks = OperatorParks()

    def check_room(self, session: Session, number: int) -> None:
        """Raise unless the client may open another stream, of this number."""
        connection = self._connections.get(session)
        streams = {} if connection is None else connection.streams
        if number in streams:
            raise InvalidRequest(f"Stream {number} is open already: close it, or take another.")
        if len(streams) >= PUSH_STREAMS_PER_CONNECTION_MAX:
            raise TooManySubscriptions(
                f"The client has {len(streams)} push streams open, and "
                f"{PUSH_STREAMS_PER_CONNECTION_MAX} is the limit of a connection: close some, or "
                f"connect once more."
            )
        if self._stream_count >= PUSH_STREAMS_MAX:
            raise TooManySubscriptions(
                f"The broker has {self._stream_count} push streams open, and {PUSH_STREAMS_MAX} is "
                f"the limit of all clients together: close some, or read by pull."
            )

    def open(self, session: Session, request: pb.OpenPushRequest, source: Source) -> PushStream:
        """Open a stream that has no credit yet."""
        self.check_room(session, request.stream)
        connection = self._connections.get(session)
        if connection is None:
            connection = self._connections[session] = _ConnectionPushes(self, session)
            session.on_close(connection, lambda: self._lost(session))
        stream = PushStream(request, source, self._settings, connection, self._clock)
        connection.streams[stream.number] = stream
        self._stream_count += 1
        session.push_stream_count += 1
        return stream

    def find(self, session: Session, number: int) -> PushStream:
        connection = self._connections.get(session)
        stream = None if connection is None else connection.streams.get(number)
        if stream is None:
            raise UnknownStream(f"There is no stream {number} on this connection: open it again.")
        return stream

    def of(self, session: Session) -> Iterator[PushStream]:
        """The streams of a client."""
        connection = self._connections.get(session)
        return iter(_NONE if connection is None else list(connection.streams.values()))

    def forget(self, session: Session) -> None:
        """A client has no stream left."""
        connection = self._connections.pop(session)
        session.forget(connection)

    def closed(self, session: Session) -> None:
        """One stream less."""
        self._stream_count -= 1
        session.push_stream_count -= 1

    def _lost(self, session: Session) -> None:
        for stream in self.of(session):
            stream.close()


class _ConnectionPushes:
    """The streams of one connection, and those of them that want to send."""

    def __init__(self, pushes: Pushes, session: Session) -> None:
        self.streams: dict[int, PushStream] = {}
        self.channel: Channel = session.channel
        self._pushes = pushes
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PushStream] = deque()
        self._is_pumping = False
        # Nobody has a turn until `_go_on`: there is no room, or others have the loop.
        self._is_held_up = False
        self._turns_left = PUSH_LOADS_PER_TURN_MAX

    @property
    def has_room(self) -> bool:
        return self.channel.connection.outbox.unsent_bytes <= PUSH_UNSENT_BYTES_MAX

    def ask(self, stream: PushStream) -> None:
        if not stream.is_queued:
            stream.is_queued = True
            self._waiting.append(stream)
        self._pump()

    def ended(self, stream: PushStream) -> None:
        del self.streams[stream.number]
        self._pushes.closed(self._session)
        if not self.streams:
            self._pushes.forget(self._session)

    def _pump(self) -> None:
        """Let streams take turns, as long as there is room."""
        if self._is_pumping or self._is_held_up:
            return
        self._is_pumping = True
        try:
            while self._waiting and not self._is_held_up:
                if not self.has_room:
                    self._is_held_up = True
                    outbox = self.channel.connection.outbox
                    outbox.when_room(PUSH_UNSENT_BYTES_MAX, self._go_on_later)
                elif self._turns_left == 0:
                    self._is_held_up = True
                    self._go_on_later()
                else:
                    self._turns_left -= 1
                    stream = self._waiting.popleft()
                    stream.is_queued = False
                    if not stream.is_closed:
                        stream.take_turn()
        finally:
            self._is_pumping = False

    def _go_on_later(self) -> None:
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_held_up = False
        self._turns_left = PUSH_LOADS_PER_TURN_MAX
        self._pump()
