"""One non-blocking socket on the event loop: whole frames in, buffers and file slices out.

Not here: what a frame is (the Receiver measures it) and what it means (`net.channel`); where the
bytes are kept (`net.inbox`, `net.outbox`). Sockets of our own and not asyncio's transports: see
docs/decisions/0004-own-sockets-on-the-loop.md.

What is queued during a read callback leaves at its end, otherwise once per turn of the loop. A
peer that does not take what is sent is not read from until it does. Invariants: a frame is
delivered once, whole and in order; its bytes hold still until `on_read_end` (for good with
`keep_frames`); `on_closed` is called exactly once, last, and never from within another call.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from enum import IntFlag
from typing import Final, Protocol

from penstock.model.errors import (
    ConnectionLost,
    InternalError,
    PenstockError,
    ProtocolError,
    StorageFailed,
)
from penstock.model.limits import WRITE_QUEUE_BYTES_HIGH, WRITE_QUEUE_BYTES_LOW
from penstock.net.inbox import Inbox
from penstock.net.outbox import JOIN_BYTES_MAX, Buffer, FileSlice, Outbox
from penstock.net.receive_pool import ReceivePool
from penstock.net.sockets import peer_name, reason_of

logger = logging.getLogger(__name__)

# How long close() waits for the peer to take what is queued.
CLOSE_TIMEOUT_S: Final = 5.0
# How long it then waits, where asked to, for the peer to close first.
LINGER_S: Final = 1.0


class Receiver(Protocol):
    """What a connection delivers to. Everything is called on the loop's thread."""

    def measure(self, view: memoryview, start: int, end: int) -> int:
        """The length of the frame at `start`, 0 if more bytes are needed to tell it.

        Raises ProtocolError where no frame can begin; then `on_protocol_error` follows.
        """
        ...

    def on_frame(self, frame: memoryview) -> None:
        """One whole frame. It may be written to, and holds still until `on_read_end`."""
        ...

    def on_read_end(self) -> None:
        """The bytes of the frames since the last call are about to be used again."""
        ...

    def on_protocol_error(self, error: ProtocolError) -> None:
        """The stream cannot be read on. A last answer may be sent, then the connection closes."""
        ...

    def on_closed(self, error: PenstockError | None) -> None:
        """The connection is gone. No error: this side or the peer closed it between frames."""
        ...


class Pause(IntFlag):
    """Why a connection is not read from. It is read again when no reason is left."""

    WRITE_QUEUE = 1
    CALLS_IN_FLIGHT = 2
    RECEIVE_BUDGET = 4
    DRAINING = 8
    CLOSED = 16


class Connection:
    """One connected socket. Made without side effects; `start` puts it on the loop."""

    __slots__ = (
        "__weakref__",
        "_close_timer",
        "_drain_waiters",
        "_is_flush_scheduled",
        "_is_reader_armed",
        "_is_reading",
        "_is_resume_scheduled",
        "_is_writer_armed",
        "_lingers",
        "_loop",
        "_on_end",
        "_paused",
        "_pool",
        "_reads_while_full",
        "_socket",
        "bytes_received",
        "error",
        "frames_received",
        "heard_at_s",
        "inbox",
        "is_writable",
        "keep_frames",
        "outbox",
        "peer",
        "receiver",
    )

    def __init__(
        self,
        connected: socket.socket,
        *,
        pool: ReceivePool,
        keep_frames: bool = False,
        reads_while_full: bool = False,
        on_end: Callable[[Connection], None] | None = None,
    ) -> None:
        """Take over a connected, non-blocking socket, on the running loop.

        keep_frames: every frame comes in a buffer that the receiver may keep. The peer is trusted
        with its length: the side that connected gets what it asked for.
        reads_while_full: read on even if the peer does not take what is sent. One side of a
        connection must, the one that connected, or both could wait for each other for ever.
        on_end: called once after `on_closed`, for whoever keeps a list of connections.
        """
        self.peer = peer_name(connected)
        self.keep_frames = keep_frames
        self.bytes_received = 0
        self.frames_received = 0
        self._socket = connected
        self._loop = asyncio.get_running_loop()
        # When the last bytes came, in the loop's time.
        self.heard_at_s = self._loop.time()
        self._pool = pool
        self._reads_while_full = reads_while_full
        self._on_end = on_end
        # May be replaced: what the next read brings goes to the new one.
        self.receiver: Receiver | None = None
        self.inbox = Inbox(pool, self, keep_frames)
        self._paused = 0  # of Pause; a plain int because it is looked at for every frame
        self._is_reading = False
        self._is_reader_armed = False
        self._is_resume_scheduled = False
        self.outbox = Outbox()
        self._is_flush_scheduled = False
        self._is_writer_armed = False
        # The peer keeps up: there is room in the write queue.
        self.is_writable = True
        self._lingers = False
        self._drain_waiters: list[asyncio.Future[None]] = []
        # What it ended by, unless it was closed between frames.
        self.error: PenstockError | None = None
        self._close_timer: asyncio.TimerHandle | None = None

    # --- life ----------------------------------------------------------------------------------

    def start(self, receiver: Receiver) -> None:
        """Begin to read."""
        assert self.receiver is None, "started twice"
        self.receiver = receiver
        self._arm_reader()

    @property
    def is_closed(self) -> bool:
        """Closed or closing: nothing sent from now on goes out."""
        return self._paused & _CLOSED != 0

    def close(self, *, linger: bool = False) -> None:
        """Stop reading, send what is queued (for CLOSE_TIMEOUT_S at most), then close.

        linger: then wait for the peer to close first, for LINGER_S at most. A socket closed with
        unread bytes is reset, which can cost the peer the last answers it was sent.
        """
        if self.is_closed:
            return
        self._lingers = linger
        self._close_timer = self._loop.call_later(CLOSE_TIMEOUT_S, self.abort)
        self.pause_reading(Pause.CLOSED)
        if not self._is_reading:
            self._flush()

    def abort(self, error: PenstockError | None = None) -> None:
        """Close at once. What is queued is lost."""
        if self._socket.fileno() < 0:
            return
        self.error = self.error or error
        self.pause_reading(Pause.CLOSED)
        self._arm_writer(False)
        if self._close_timer is not None:
            self._close_timer.cancel()
            self._close_timer = None
        self._socket.close()
        self.inbox.clear()
        self.outbox.clear()
        self._wake_drainers()
        # Not at once: the caller may be in the middle of something of its own.
        self._loop.call_soon(self._report_closed)

    def _report_closed(self) -> None:
        receiver, self.receiver = self.receiver, None
        on_end, self._on_end = self._on_end, None
        try:
            if receiver is not None:
                receiver.on_closed(self.error)
        finally:
            if on_end is not None:
                on_end(self)

    # --- reading -------------------------------------------------------------------------------

    def is_paused_for(self, reasons: Pause) -> bool:
        """The peer is not read from now, for one of these reasons."""
        return self._paused & reasons.value != 0

    def pause_reading(self, reason: Pause) -> None:
        """Stop reading from the peer until every reason given has been taken back."""
        self._paused |= reason.value
        if self._is_reader_armed:
            self._is_reader_armed = False
            self._loop.remove_reader(self._socket.fileno())

    def resume_reading(self, reason: Pause) -> None:
        """Take a reason back. Reading goes on in the next turn of the loop, never at once."""
        self._paused &= ~reason.value
        if not (self._paused or self._is_reader_armed or self._is_resume_scheduled):
            self._is_resume_scheduled = True
            self._loop.call_soon(self._resume)

    def on_room(self) -> None:
        """The pool has room for the large frame that had to wait."""
        self.resume_reading(Pause.RECEIVE_BUDGET)

    def _resume(self) -> None:
        self._is_resume_scheduled = False
        if self._paused or self.receiver is None:
            return
        # What was read before the pause comes first; it may bring the next pause.
        if self.inbox.is_frame_partial:
            if not self.inbox.grow():
                self.pause_reading(Pause.RECEIVE_BUDGET)
        elif self.inbox.pending_bytes:
            self.inbox.restore()
            self._deliver()
        self._arm_reader()

    def _arm_reader(self) -> None:
        if not self._is_reader_armed and not self._paused:
            self._is_reader_armed = True
            self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        """One recv and what it brings: so no peer keeps the loop longer than one buffer's worth."""
        try:
            received = self.inbox.receive(self._socket)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._on_broken(error)
            return
        if received == 0:
            if self.inbox.pending_bytes:
                self.error = ConnectionLost(f"{self.peer} left in the middle of a frame.")
            self.close()
            return
        self.bytes_received += received
        self.heard_at_s = self._loop.time()
        if self.inbox.is_frame_partial:
            if not self.inbox.grow():
                self.pause_reading(Pause.RECEIVE_BUDGET)
        else:
            self._deliver()

    def _deliver(self) -> None:  # noqa: C901 - one pass, and no call for its parts
        """Hand whole frames to the receiver, send what it answers, put the rest aside."""
        receiver = self.receiver
        assert receiver is not None
        measure, on_frame = receiver.measure, receiver.on_frame
        view, end, is_first_own = self.inbox.contents()
        must_copy = self.keep_frames and not is_first_own
        start = frame_bytes = 0
        wrong: ProtocolError | None = None
        self._is_reading = True
        try:
            while start < end and not self._paused:
                frame_bytes = measure(view, start, end)
                if frame_bytes == 0 or start + frame_bytes > end:
                    break
                frame = view[start : start + frame_bytes]
                start += frame_bytes
                frame_bytes = 0
                self.frames_received += 1
                on_frame(memoryview(bytearray(frame)) if must_copy else frame)
                must_copy = self.keep_frames
        except ProtocolError as error:
            # Without its traceback, which would keep this call, and with it the frame, alive.
            wrong = error.with_traceback(None)
        except Exception:
            self._on_receiver_failed()
        try:
            if start:  # even after a failure: frames before it may be staged somewhere, as views
                receiver.on_read_end()
            if wrong is not None:
                receiver.on_protocol_error(wrong)
        except Exception:
            self._on_receiver_failed()
        if wrong is not None:
            self.error = self.error or wrong
            self.close(linger=True)
        self._is_reading = False
        if self.outbox or self.is_closed:
            self._flush()
            self.outbox.keep_borrowed()
        if not self.is_closed and not self.inbox.keep(start, frame_bytes):
            self.pause_reading(Pause.RECEIVE_BUDGET)

    def _on_receiver_failed(self) -> None:
        """A bug of ours: it must not leave a connection behind that nobody looks after."""
        logger.exception("Handling a frame of %s failed: it is disconnected.", self.peer)
        self.abort(InternalError())

    # --- writing -------------------------------------------------------------------------------

    def send(self, *buffers: Buffer) -> None:
        """Queue buffers. A closed connection drops them: `on_closed` has told or will tell.

        A buffer that can be written to may change after this returns, or, within a callback of
        the receiver, after `on_read_end`: what has not left until then is copied. Give a readonly
        view of what will not change, and it is never copied.
        """
        if self._paused & _CLOSED:
            return
        outbox = self.outbox
        has_borrowed = False
        for buffer in buffers:
            if type(buffer) is bytes:
                outbox.add(buffer)
            elif self._is_reading or len(buffer) > JOIN_BYTES_MAX:
                outbox.borrow(buffer)
                has_borrowed = True
            else:
                outbox.add(bytes(buffer))
        if has_borrowed and not self._is_reading:
            self._flush()
            outbox.keep_borrowed()
        elif not self._is_reading or outbox.queued_bytes > WRITE_QUEUE_BYTES_HIGH:
            self._flush_later()

    def send_slice(self, head: bytes, file_slice: FileSlice) -> None:
        """Queue a head and, after it, a part of a file. If that cannot be read now, raises what
        its `read` raises, and nothing is queued; if it cannot be sent later, the connection ends,
        because the head has promised it."""
        if not self._paused & _CLOSED:
            self.outbox.add_slice(head, file_slice)
            self._flush_later()

    async def drain(self) -> None:
        """Wait until the write queue has room, for those who send without being asked."""
        if not self.is_writable:
            waiter = self._loop.create_future()
            self._drain_waiters.append(waiter)
            await waiter
        if self.is_closed:
            raise ConnectionLost(f"The connection to {self.peer} is closed: connect again.")

    def _flush_later(self) -> None:
        if self.outbox.queued_bytes > WRITE_QUEUE_BYTES_HIGH and self.is_writable:
            self._flush()  # see whether the peer is slow or only many answers came at once
        elif not (self._is_reading or self._is_flush_scheduled or self._is_writer_armed):
            self._is_flush_scheduled = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_flush_scheduled = False
        if self._socket.fileno() < 0:
            return
        try:
            self.outbox.flush(self._socket)
        except (OSError, StorageFailed) as error:
            self._on_broken(error)
            return
        self._arm_writer(bool(self.outbox))
        queued_bytes = self.outbox.queued_bytes
        if queued_bytes > WRITE_QUEUE_BYTES_HIGH and self.is_writable:
            self.is_writable = False
            if not self._reads_while_full:
                self.pause_reading(Pause.WRITE_QUEUE)
        elif not self.is_writable and queued_bytes <= WRITE_QUEUE_BYTES_LOW:
            self._wake_drainers()
            self.resume_reading(Pause.WRITE_QUEUE)
        if self.is_closed and not self.outbox and not self._is_reading:
            self._on_all_sent()

    def _arm_writer(self, is_wanted: bool) -> None:
        if is_wanted is self._is_writer_armed:
            return
        self._is_writer_armed = is_wanted
        if is_wanted:
            self._loop.add_writer(self._socket.fileno(), self._flush)
        else:
            self._loop.remove_writer(self._socket.fileno())

    def _wake_drainers(self) -> None:
        self.is_writable = True
        for waiter in self._drain_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._drain_waiters.clear()

    def _on_all_sent(self) -> None:
        """The last bytes of a closing connection have left."""
        if not self._lingers:
            self.abort()
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:  # the peer is gone already
            self.abort()
            return
        assert self._close_timer is not None
        self._close_timer.cancel()
        self._close_timer = self._loop.call_later(LINGER_S, self.abort)
        self._is_reader_armed = True
        self._loop.add_reader(self._socket.fileno(), self._discard)

    def _discard(self) -> None:
        """Read what the peer still sends, until it closes too."""
        try:
            if self._socket.recv_into(self._pool.view) > 0:
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # it did not close, it broke: what matters was sent
            pass
        self.abort()

    def _on_broken(self, error: OSError | StorageFailed) -> None:
        if isinstance(error, StorageFailed):
            # The peer was promised bytes that are not there: all it can be told is the end.
            logger.error("Sending to %s failed: %s", self.peer, error)
            self.abort(error)
        else:
            self.abort(ConnectionLost(f"The connection to {self.peer} broke: {reason_of(error)}."))


_CLOSED: Final = Pause.CLOSED.value
