"""A server: listens on several addresses, accepts, and looks after its connections.

Not here: what is said on a connection; a factory makes a Session for each. Invariants: there are
never more than `connections_max` sessions; a peer that says nothing, stops in the middle of a
frame, or has silently gone is noticed by the sweep, which once a second looks at every connection
and reads no clock but the one it was given.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from penstock.model.errors import Busy, InvalidConfig, TimedOut
from penstock.model.limits import CONNECTIONS_MAX_DEFAULT, KIB
from penstock.net.address import Address, UnixAddress
from penstock.net.clock import Clock, SystemClock
from penstock.net.connection import Connection, Pause, Receiver
from penstock.net.receive_pool import ReceivePool
from penstock.net.sockets import address_of, listen, reason_of, tune
from penstock.protocol.calls import error_envelope
from penstock.protocol.frame import CONNECTION_MESSAGE_ID, ERROR_TYPE, encode_head

logger = logging.getLogger(__name__)

SWEEP_INTERVAL_S: Final = 1.0
# The sweep looks at so many connections (less than a millisecond), then lets others have the loop.
SWEEP_STEP_CONNECTIONS: Final = 256
SWEEP_STEP_S: Final = 0.005
# Connections accepted before those that are there get their turn.
ACCEPTS_PER_TURN_MAX: Final = 64
# How long to leave new connections in the kernel's queue when there are no descriptors left.
ACCEPT_PAUSE_S: Final = 1.0
# A frame of which so much comes within its timeout is waited for, however long it is.
FRAME_PROGRESS_BYTES: Final = 512 * KIB

# We do not read from the peer for our own reasons: its silence is not its fault.
_OUR_PAUSES: Final = Pause.CALLS_IN_FLIGHT | Pause.RECEIVE_BUDGET | Pause.DRAINING


class Session(Receiver, Protocol):
    """What serves one connection."""

    def ping(self) -> bool:
        """Ask a silent peer for a sign of life. False: the protocol has no way to ask."""
        ...

    def drain(self) -> None:
        """Take no further requests, and close the connection once those taken are answered."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """Limits and patience, in seconds."""

    connections_max: int = CONNECTIONS_MAX_DEFAULT
    # From the connection to the beginning of its first frame.
    first_frame_timeout_s: float = 10.0
    # From the beginning of a frame to its end, or to the next FRAME_PROGRESS_BYTES of it.
    frame_timeout_s: float = 30.0
    # Silence after which the peer is asked whether it is there, and how long it may take to say.
    idle_ping_s: float = 60.0
    ping_timeout_s: float = 10.0


class _Watched:
    """A connection and what the last sweeps saw of it. Slots: there is one per connection."""

    __slots__ = (
        "active_at",
        "frames_seen",
        "opened_at",
        "pinged_at",
        "progress_at",
        "progress_bytes",
        "session",
        "traffic_seen",
    )

    def __init__(self, session: Session, now: float) -> None:
        self.session = session
        self.opened_at = now
        self.active_at = now  # bytes came or went
        self.progress_at = now  # a frame was whole, none had begun, or much of one had come
        self.progress_bytes = 0
        self.pinged_at: float | None = None
        self.traffic_seen = 0
        self.frames_seen = 0


class Server:
    """Listening sockets and the connections that came through them."""

    def __init__(
        self,
        addresses: Sequence[Address],
        make_session: Callable[[Connection], Session],
        *,
        config: ServerConfig | None = None,
        clock: Clock | None = None,
        pool: ReceivePool | None = None,
    ) -> None:
        self._wanted = tuple(addresses)
        self._make_session = make_session
        self._config = config or ServerConfig()
        self._clock = clock or SystemClock()
        self._pool = pool or ReceivePool()
        self._listening: list[socket.socket] = []
        self._connections: dict[Connection, _Watched] = {}
        self._all_gone: asyncio.Future[None] | None = None
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._accept_timer: asyncio.TimerHandle | None = None
        self._is_at_limit = False

    # --- life ----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen on every address, or raise InvalidConfig and listen on none."""
        try:
            for address in self._wanted:
                self._listening += listen(address)
        except InvalidConfig:
            self._stop_listening()
            raise
        self._accept_again()
        self._schedule_sweep()

    async def drain(self, timeout_s: float) -> None:
        """Accept nobody, read nothing further, let answers go out, close. Then cut off the rest."""
        self._stop_listening()
        for watched in list(self._connections.values()):
            watched.session.drain()
        if self._connections:
            self._all_gone = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._all_gone
            except TimeoutError:
                logger.warning(
                    "%d connections had unfinished calls after %g s and are cut off.",
                    len(self._connections),
                    timeout_s,
                )
        await self.close()

    async def close(self) -> None:
        """Stop at once. Sessions have been told of their end when this returns."""
        self._stop_listening()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        if self._connections:
            self._all_gone = asyncio.get_running_loop().create_future()
            for connection in list(self._connections):
                connection.abort()
            await self._all_gone

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def addresses(self) -> list[Address]:
        """Where it listens, with the ports that the kernel chose."""
        return [address_of(listening) for listening in self._listening]

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def _stop_listening(self) -> None:
        if self._accept_timer is not None:
            self._accept_timer.cancel()
            self._accept_timer = None
        for listening in self._listening:
            asyncio.get_running_loop().remove_reader(listening.fileno())
            address = address_of(listening)
            listening.close()
            if isinstance(address, UnixAddress):
                with contextlib.suppress(OSError):
                    os.unlink(address.path)
        self._listening.clear()

    # --- accepting -----------------------------------------------------------------------------

    def _accept_again(self) -> None:
        self._accept_timer = None
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.add_reader(listening.fileno(), self._on_acceptable, listening)

    def _on_acceptable(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN_MAX):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # most often there are no descriptors left
                self._pause_accepting(error)
                return
            self._add(accepted)

    def _pause_accepting(self, error: OSError) -> None:
        """The queue stays readable, so trying again at once would spin."""
        logger.error(
            "Cannot accept connections: %s. Trying again in %g s; if it is the limit of open files,"
            " raise it (ulimit -n).",
            reason_of(error),
            ACCEPT_PAUSE_S,
        )
        loop = asyncio.get_running_loop()
        for listening in self._listening:
            loop.remove_reader(listening.fileno())
        self._accept_timer = loop.call_later(ACCEPT_PAUSE_S, self._accept_again)

    def _add(self, accepted: socket.socket) -> None:
        if len(self._connections) >= self._config.connections_max:
            self._turn_away(accepted)
            return
        self._is_at_limit = False
        try:
            tune(accepted)
        except OSError:  # gone before it was greeted
            accepted.close()
            return
        connection = Connection(accepted, pool=self._pool, on_end=self._on_end)
        session = self._make_session(connection)
        self._connections[connection] = _Watched(session, self._clock.monotonic())
        connection.start(session)

    def _turn_away(self, accepted: socket.socket) -> None:
        """Say why, if the peer's empty socket takes it at once, as it does."""
        connections_max = self._config.connections_max
        if not self._is_at_limit:  # once, not for each that is turned away
            self._is_at_limit = True
            logger.warning("%d connections are the limit: more are refused.", connections_max)
        error = Busy(f"The broker has its limit of {connections_max} connections: try again later.")
        with accepted, contextlib.suppress(OSError):
            accepted.setblocking(False)
            accepted.send(encode_head(ERROR_TYPE, CONNECTION_MESSAGE_ID, error_envelope(error)))

    def _on_end(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if not self._connections and self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)

    # --- looking after them --------------------------------------------------------------------

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep_timer = loop.call_later(SWEEP_INTERVAL_S, self._on_sweep_timer)

    def _on_sweep_timer(self) -> None:
        self._sweep_on(list(self._connections.items()))

    def _sweep_on(self, left: list[tuple[Connection, _Watched]]) -> None:
        """A few at a time, so that ten thousand connections do not hold up an answer."""
        self._look_at_each(left[-SWEEP_STEP_CONNECTIONS:])
        del left[-SWEEP_STEP_CONNECTIONS:]
        if left:
            loop = asyncio.get_running_loop()
            self._sweep_timer = loop.call_later(SWEEP_STEP_S, self._sweep_on, left)
        else:
            self._schedule_sweep()

    def sweep(self) -> None:
        """Look at every connection now. The timer does this by itself, in steps."""
        self._look_at_each(list(self._connections.items()))

    def _look_at_each(self, connections: list[tuple[Connection, _Watched]]) -> None:
        now = self._clock.monotonic()
        for connection, watched in connections:
            connection.inbox.drop_idle()
            self._look_at(connection, watched, now)

    def _look_at(self, connection: Connection, watched: _Watched, now: float) -> None:
        config = self._config
        # Bytes that leave count only while more wait: a ping must not pass for its own answer.
        traffic = connection.bytes_received
        if connection.outbox:
            traffic += connection.outbox.sent_bytes
        partial_bytes = connection.inbox.pending_bytes
        is_our_pause = connection.is_paused_for(_OUR_PAUSES)
        if traffic != watched.traffic_seen or is_our_pause:
            watched.traffic_seen = traffic
            watched.active_at = now
            watched.pinged_at = None
        if (
            is_our_pause
            or not partial_bytes
            or partial_bytes - watched.progress_bytes >= FRAME_PROGRESS_BYTES
            or connection.frames_received != watched.frames_seen
        ):
            watched.frames_seen = connection.frames_received
            watched.progress_bytes = partial_bytes
            watched.progress_at = now
        if now - watched.progress_at > config.frame_timeout_s:
            self._end(connection, TimedOut("a frame was begun and not ended in time"))
        elif not connection.bytes_received:
            if now - watched.opened_at > config.first_frame_timeout_s:
                self._end(connection, TimedOut("it said nothing"))
        elif watched.pinged_at is not None:
            if now - watched.pinged_at > config.ping_timeout_s:
                self._end(connection, TimedOut("it did not answer a ping"))
        elif now - watched.active_at > config.idle_ping_s and watched.session.ping():
            watched.pinged_at = now

    def _end(self, connection: Connection, error: TimedOut) -> None:
        logger.info("%s is disconnected: %s.", connection.peer, error)
        connection.abort(error)
