"""Full-duplex calls on one connection: either side calls, answers find their call by its id.

Not here: sockets and buffers (`net.connection`), what a call does (`serve`, given by the broker
or the client). Ping is the one call that a channel answers itself. Invariants: every call made
here ends exactly once, by its answer, its timeout, its cancellation or the connection's end; a
peer's frame that is wrong inside its bounds is answered with an error and the connection goes on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from penstock.model.errors import (
    ConnectionLost,
    FrameTooLarge,
    InternalError,
    MalformedFrame,
    PenstockError,
    ProtocolError,
    TimedOut,
    UnknownCall,
    UnsupportedVersion,
)
from penstock.model.limits import CALLS_IN_FLIGHT_MAX, FRAME_BYTES_MAX
from penstock.net.address import Address
from penstock.net.connection import Connection, Pause
from penstock.net.outbox import Buffer, FileSlice
from penstock.net.receive_pool import ReceivePool
from penstock.net.sockets import connect
from penstock.protocol.calls import (
    CALLS,
    PING,
    CallType,
    RequestT,
    ResponseT,
    error_envelope,
    error_from,
    parse,
    type_name,
)
from penstock.protocol.frame import (
    ANSWER_BIT,
    CONNECTION_MESSAGE_ID,
    ERROR_TYPE,
    HEADER_BYTES,
    MESSAGE_ID_MAX,
    encode_head,
    measure,
    peek,
    split,
)

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S: Final = 30.0
CONNECT_TIMEOUT_S: Final = 10.0
# Overdue calls are looked for at most this often, however many wait: a timeout may be so late.
TIMER_GRAIN_S: Final = 0.05

_NOTHING: Final = memoryview(b"")
_PING_NUMBER: Final = PING.number

# Called on the loop with the answer, or with an error and empty views. With a connection that
# does not keep frames the views hold still only until the callback returns.
AnswerCallback = Callable[[PenstockError | None, memoryview, memoryview], None]
# Given the channel, the call's number, its message id, envelope and payload; answers now or later.
# An error that it raises is the answer.
Serve = Callable[["Channel", int, int, memoryview, memoryview], None]


class Channel:
    """Calls in both directions. A Receiver for its connection, and a Session for a Server."""

    __slots__ = (
        "__weakref__",
        "_calls",
        "_calls_in_flight",
        "_farewell",
        "_frame_bytes_max",
        "_is_draining",
        "_is_throttled",
        "_loop",
        "_next_id",
        "_on_closed",
        "_on_read_end",
        "_serve",
        "_timer",
        "_wrong_frame",
        "connection",
    )

    def __init__(
        self,
        connection: Connection,
        serve: Serve,
        *,
        on_read_end: Callable[[], None] | None = None,
        on_closed: Callable[[Channel, PenstockError | None], None] | None = None,
        frame_bytes_max: int = FRAME_BYTES_MAX,
    ) -> None:
        """Speak over a connection that will be started with this channel as its receiver.

        on_read_end: the payloads given to `serve` since the last time are about to be overwritten.
        on_closed: the connection is gone; nothing that is answered from now on reaches anybody.
        """
        self.connection = connection
        self._serve = serve
        self._on_read_end = on_read_end
        self._on_closed = on_closed
        self._frame_bytes_max = frame_bytes_max
        self._loop = asyncio.get_running_loop()
        # Our calls by message id: the call's number, whom to tell, and when to give up.
        self._calls: dict[int, tuple[int, AnswerCallback, float]] = {}
        self._next_id = CONNECTION_MESSAGE_ID + 1
        self._timer: asyncio.TimerHandle | None = None
        self._farewell: PenstockError | None = None
        # The peer's calls: how many have no answer yet.
        self._calls_in_flight = 0
        self._is_throttled = False
        self._is_draining = False
        # The type and id of the frame that `measure` refused, if its header could be read.
        self._wrong_frame: tuple[int, int] | None = None

    # --- calling the peer ----------------------------------------------------------------------

    async def call(
        self,
        call: CallType[RequestT, ResponseT],
        request: RequestT,
        payload: Sequence[Buffer] = (),
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> tuple[ResponseT, memoryview]:
        """Call the peer and wait for the answer. The payload of the answer may be kept."""
        future: asyncio.Future[tuple[ResponseT, memoryview]] = self._loop.create_future()
        keep_frames = self.connection.keep_frames

        def on_answer(
            error: PenstockError | None, envelope: memoryview, payload: memoryview
        ) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
                return
            try:
                response = parse(call.response, envelope)
            except MalformedFrame as malformed:
                future.set_exception(malformed)
                return
            kept = payload if keep_frames else memoryview(bytes(payload))
            future.set_result((response, kept))

        envelope = request.SerializeToString()
        message_id = self.start_call(call.number, envelope, payload, on_answer, timeout_s)
        try:
            return await future
        finally:
            self._calls.pop(message_id, None)  # there only if this was cancelled

    def start_call(
        self,
        number: int,
        envelope: bytes,
        payload: Sequence[Buffer],
        callback: AnswerCallback,
        timeout_s: float = CALL_TIMEOUT_S,
        *,
        file_slice: FileSlice | None = None,
    ) -> int:
        """Call the peer; the callback gets the answer. No task, no future. Returns the id.

        file_slice: a part of a file instead of the payload. If that cannot be read, raises what its
        `read` raises, and the peer is not called.
        """
        message_id = self.tell(number, envelope, payload, file_slice)
        # A timer for now has no `when` on uvloop.
        deadline = self._loop.time() + max(timeout_s, TIMER_GRAIN_S)
        self._calls[message_id] = (number, callback, deadline)
        if self._timer is None or deadline < self._timer.when():
            self._set_timer(deadline)
        return message_id

    def tell(
        self,
        number: int,
        envelope: bytes,
        payload: Sequence[Buffer] = (),
        file_slice: FileSlice | None = None,
    ) -> int:
        """Call the peer and wait for nothing: for calls that are not answered, or only if they
        fail, which is then dropped. Returns the id."""
        if self.connection.is_closed:
            raise self._lost()
        payload_bytes = 0 if file_slice is None else file_slice.length
        for buffer in payload:
            payload_bytes += len(buffer)
        calls = self._calls
        message_id = self._next_id
        while message_id in calls:  # an id comes round again after four billion calls
            message_id = message_id + 1 if message_id < MESSAGE_ID_MAX else 1
        self._next_id = message_id + 1 if message_id < MESSAGE_ID_MAX else 1
        if payload_bytes + len(envelope) + HEADER_BYTES + 4 > self._frame_bytes_max:
            raise _too_large(number, payload_bytes, self._frame_bytes_max)
        head = encode_head(number, message_id, envelope, payload_bytes)
        if file_slice is None:
            self.connection.send(head, *payload)
        else:
            self.connection.send_slice(head, file_slice)
        return message_id

    def cancel_call(self, message_id: int) -> None:
        """Forget a call: its callback is not called, an answer that still comes is dropped."""
        self._calls.pop(message_id, None)

    @property
    def pending_calls(self) -> int:
        """Our calls without an answer."""
        return len(self._calls)

    # --- answering the peer --------------------------------------------------------------------

    @property
    def calls_in_flight(self) -> int:
        """The peer's calls without an answer."""
        return self._calls_in_flight

    def answer(self, message_id: int, number: int, envelope: bytes, payload: Buffer = b"") -> None:
        """Answer a call of the peer. After the connection's end this does nothing."""
        payload_bytes = len(payload)
        head = encode_head(number | ANSWER_BIT, message_id, envelope, payload_bytes)
        if payload_bytes:
            self.connection.send(head, payload)
        else:
            self.connection.send(head)
        self._settle()

    def answer_slice(
        self, message_id: int, number: int, envelope: bytes, file_slice: FileSlice
    ) -> None:
        """Answer a call of the peer with a part of a file as the payload."""
        head = encode_head(number | ANSWER_BIT, message_id, envelope, file_slice.length)
        self.connection.send_slice(head, file_slice)
        self._settle()

    def answer_error(self, message_id: int, error: PenstockError) -> None:
        """Answer a call of the peer with an error."""
        self.connection.send(encode_head(ERROR_TYPE, message_id, error_envelope(error)))
        self._settle()

    def leave_unanswered(self) -> None:
        """A call of the peer gets no answer, because it asked for none."""
        self._settle()

    def _settle(self) -> None:
        self._calls_in_flight -= 1
        if self._is_throttled and self._calls_in_flight <= CALLS_IN_FLIGHT_MAX // 2:
            self._is_throttled = False
            self.connection.resume_reading(Pause.CALLS_IN_FLIGHT)
        if self._is_draining and self._calls_in_flight == 0:
            self.connection.close(linger=True)

    # --- the session's life, for a server ------------------------------------------------------

    def ping(self) -> bool:
        """Ask the peer for a sign of life: the answer counts, not what it says."""
        if not self.connection.is_closed:
            self.start_call(_PING_NUMBER, b"", (), _ignore_answer)
        return True

    def drain(self) -> None:
        """Take no further calls; close as soon as those taken are answered."""
        if self.connection.is_closed:
            return  # it lingers: it reads until its peer closes too, and must not be kept from it
        self._is_draining = True
        self.connection.pause_reading(Pause.DRAINING)
        if self._calls_in_flight == 0:
            self.connection.close(linger=True)

    def close(self) -> None:
        """Close the connection once what is queued has left. Calls without an answer fail."""
        self.connection.close()

    # --- what the connection delivers ----------------------------------------------------------

    def measure(self, view: memoryview, start: int, end: int) -> int:
        try:
            return measure(view, start, end, self._frame_bytes_max)
        except (UnsupportedVersion, FrameTooLarge):
            self._wrong_frame = peek(view, start)
            raise

    def on_frame(self, frame: memoryview) -> None:
        try:
            kind, message_id, envelope, payload = split(frame)
        except ProtocolError as error:
            self._refuse(*peek(frame), error)
            return
        if kind >= ANSWER_BIT:
            self._on_answer(kind, message_id, envelope, payload)
            return
        self._calls_in_flight += 1
        if self._calls_in_flight >= CALLS_IN_FLIGHT_MAX:
            self._is_throttled = True
            self.connection.pause_reading(Pause.CALLS_IN_FLIGHT)
        if kind == _PING_NUMBER:
            self.answer(message_id, kind, b"")
        elif kind not in CALLS:
            self.answer_error(message_id, UnknownCall(f"There is no call of type {kind}."))
        else:
            try:
                self._serve(self, kind, message_id, envelope, payload)
            except PenstockError as error:
                self.answer_error(message_id, error)
            except Exception:
                logger.exception("%s of %s failed.", type_name(kind), self.connection.peer)
                self.answer_error(message_id, InternalError())

    def on_read_end(self) -> None:
        if self._on_read_end is not None:
            self._on_read_end()

    def on_protocol_error(self, error: ProtocolError) -> None:
        logger.warning("%s is disconnected: %s", self.connection.peer, error)
        if self._wrong_frame is not None:
            self._refuse(*self._wrong_frame, error)

    def on_closed(self, error: PenstockError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        pending, self._calls = self._calls, {}
        reason = self._farewell or (error if isinstance(error, ConnectionLost) else self._lost())
        for _, callback, _ in pending.values():
            _fail(callback, reason)
        if self._on_closed is not None:
            self._on_closed(self, error)

    # --- helpers -------------------------------------------------------------------------------

    def _on_answer(
        self, kind: int, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        call = self._calls.pop(message_id, None)
        if call is not None and kind == call[0] | ANSWER_BIT:
            call[1](None, envelope, payload)
            return
        error: PenstockError
        if kind == ERROR_TYPE:
            try:
                error = error_from(envelope)
            except MalformedFrame as malformed:
                error = malformed
        else:
            error = MalformedFrame(f"{self.connection.peer} sent an {type_name(kind)} instead.")
        if call is not None:
            _fail(call[1], error)
        elif kind == ERROR_TYPE and message_id == CONNECTION_MESSAGE_ID:
            # Not about a call: the peer says why it is about to close the connection.
            self._farewell = error
        else:
            logger.debug(
                "%s sent an %s that nobody waits for.", self.connection.peer, type_name(kind)
            )

    def _refuse(self, kind: int, message_id: int, error: ProtocolError) -> None:
        """A frame is wrong but its header was read: tell whoever it concerns."""
        if kind < ANSWER_BIT:
            self.connection.send(encode_head(ERROR_TYPE, message_id, error_envelope(error)))
        elif (call := self._calls.pop(message_id, None)) is not None:
            _fail(call[1], error)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        """Fail what is overdue. One timer for all calls: most are answered long before."""
        self._timer = None
        now = self._loop.time()
        overdue = [message_id for message_id, (_, _, at) in self._calls.items() if at <= now]
        for message_id in overdue:
            _, callback, _ = self._calls.pop(message_id)
            _fail(callback, TimedOut(f"{self.connection.peer} did not answer in time."))
        if self._calls:
            next_at = min(at for _, _, at in self._calls.values())
            self._set_timer(max(next_at, now + TIMER_GRAIN_S))

    def _lost(self) -> ConnectionLost:
        return ConnectionLost(
            f"The connection to {self.connection.peer} was closed: connect again."
        )


async def connect_channel(
    address: Address,
    serve: Serve | None = None,
    *,
    pool: ReceivePool | None = None,
    timeout_s: float = CONNECT_TIMEOUT_S,
    on_closed: Callable[[Channel, PenstockError | None], None] | None = None,
) -> Channel:
    """Connect to a broker and speak: the payloads of its answers may be kept.

    serve: answers what the broker calls; without it the channel only answers Ping.
    pool: for several connections on one loop to share their receive buffer.
    """
    connected = await connect(address, timeout_s)
    connection = Connection(
        connected, pool=pool or ReceivePool(), keep_frames=True, reads_while_full=True
    )
    channel = Channel(connection, serve or _serve_nothing, on_closed=on_closed)
    connection.start(channel)
    return channel


def _serve_nothing(
    _channel: Channel, number: int, _id: int, _envelope: memoryview, _payload: memoryview
) -> None:
    raise UnknownCall(f"{type_name(number)} cannot be called on this side.")


def _ignore_answer(
    _error: PenstockError | None, _envelope: memoryview, _payload: memoryview
) -> None:
    """A ping is answered by any sign of life, which the server sees by itself."""


def _fail(callback: AnswerCallback, error: PenstockError) -> None:
    try:
        callback(error, _NOTHING, _NOTHING)
    except Exception:  # of one caller, which must not keep the others from being told
        logger.exception("The callback of a call that failed has failed too.")


def _too_large(number: int, payload_bytes: int, frame_bytes_max: int) -> FrameTooLarge:
    return FrameTooLarge(
        f"{type_name(number)} with a payload of {payload_bytes} bytes does not fit a frame:"
        f" {frame_bytes_max} bytes is the limit, send less at once."
    )
