"""Bytes on their way in from one socket: where they are put, and what is kept between reads.

Not here: when to read and whom frames go to (`net.connection`). Small frames pass through the
pool's shared buffer, and the rest of a partial one is kept as bytes. A large frame gets a buffer
of its own, which grows with the bytes that arrive and not with the length that the peer claims,
and which then serves for the next large frame too. Invariant: between `contents` and `keep`
nobody else touches the shared buffer; outside of them nothing of this connection is in it.
"""

from __future__ import annotations

import socket
from typing import Final

from penstock.model.limits import KIB
from penstock.net.receive_pool import ReceivePool, Waiter

# A partial frame up to this size is kept as bytes and read on through the shared buffer.
SMALL_FRAME_BYTES_MAX: Final = 64 * KIB
# The first size of a large frame's buffer: more than a small frame, little enough for thousands.
OWN_BUFFER_BYTES_MIN: Final = 128 * KIB
# A read into a large frame's buffer may take this much of the next frame along: enough for its
# header, so that the next large frame is read into place without a copy of its beginning.
READ_AHEAD_BYTES: Final = 4 * KIB


class Inbox:
    """The receive buffers of one connection."""

    __slots__ = (
        "_filled",
        "_frame_bytes",
        "_is_in_use",
        "_keep_frames",
        "_own",
        "_partial",
        "_pool",
        "_waiter",
    )

    def __init__(self, pool: ReceivePool, waiter: Waiter, keep_frames: bool) -> None:
        self._pool = pool
        self._waiter = waiter
        self._keep_frames = keep_frames
        # What was received and not delivered is in `_partial`, or in `_own` once that exists. Of
        # `_own` the first `_filled` bytes are that; `_frame_bytes` is the length of the large
        # frame they begin with, or 0.
        self._partial = b""
        self._own: memoryview | None = None
        self._filled = 0
        self._frame_bytes = 0
        self._is_in_use = False

    @property
    def pending_bytes(self) -> int:
        """What was received and not delivered yet."""
        return len(self._partial) if self._own is None else self._filled

    def receive(self, source: socket.socket) -> int:
        """Read once. The count of bytes, 0 at the end of the stream; OSError as recv has it."""
        own = self._own
        if own is not None:
            end = self._frame_bytes + READ_AHEAD_BYTES if self._frame_bytes else len(own)
            received = source.recv_into(own[self._filled : end])
            self._filled += received
            return received
        if not self._partial:
            received = source.recv_into(self._pool.view)
            self._filled = received
            return received
        view, partial_bytes = self._pool.view, len(self._partial)
        view[:partial_bytes] = self._partial
        received = source.recv_into(view[partial_bytes:])
        if received:
            self._partial = b""
            self._filled = partial_bytes + received
        return received

    def restore(self) -> None:
        """Bring back what was kept, to deliver it without another `receive`."""
        if self._own is None:
            self._filled = len(self._partial)
            self._pool.view[: self._filled] = self._partial
            self._partial = b""

    @property
    def is_frame_partial(self) -> bool:
        """A large frame is on its way and not whole: there is nothing to deliver."""
        return self._filled < self._frame_bytes

    def contents(self) -> tuple[memoryview, int, bool]:
        """A view, how much of it is filled, and whether its first frame may be kept uncopied."""
        if self._own is None:
            return self._pool.view, self._filled, False
        return self._own, self._filled, self._frame_bytes > 0

    def keep(self, start: int, frame_bytes: int) -> bool:
        """Put aside what `contents` has from `start` on, after the frames before were delivered.

        frame_bytes: the length of the frame that begins there, 0 if that is not known. False: the
        budget has no room for it now; `restore`, deliver and `keep` again when it has.
        """
        if start == self._filled and self._own is None:
            self._filled = 0
            return True
        view, end, _ = self.contents()
        rest = view[start:end]
        is_large = frame_bytes > SMALL_FRAME_BYTES_MAX and len(rest) > 0
        self._is_in_use = self._is_in_use or is_large
        if self._own is not None and start and (self._keep_frames or self._pool.is_scarce):
            rest = memoryview(bytes(rest))
            self._drop_own()
        is_refused = False
        if self._own is None and is_large:
            size = frame_bytes + READ_AHEAD_BYTES
            if not self._keep_frames:
                size = min(size, max(OWN_BUFFER_BYTES_MIN, 2 * len(rest)))
            if self._pool.reserve(self._waiter, size):
                self._own = memoryview(bytearray(size))
            else:
                is_refused = True
        if self._own is None:
            self._partial = bytes(rest)
            self._filled = 0
            return not is_refused
        if start or view is not self._own:
            self._own[: len(rest)] = rest
        self._filled = len(rest)
        self._frame_bytes = frame_bytes if is_large else 0
        return self.grow()

    def grow(self) -> bool:
        """Make room for more of a large frame. False: the budget has none now; try again later."""
        own = self._own
        if own is None or self._filled < len(own) or not self.is_frame_partial:
            return True
        size = min(2 * len(own), self._frame_bytes + READ_AHEAD_BYTES)
        if not self._pool.reserve(self._waiter, size - len(own)):
            return False
        grown = memoryview(bytearray(size))
        grown[: len(own)] = own
        self._own = grown
        return True

    def drop_idle(self) -> None:
        """Free the large frames' buffer unless a large frame came since the last call."""
        if self._own is not None and not self._is_in_use and self._filled == 0:
            self._drop_own()
        self._is_in_use = False

    def clear(self) -> None:
        """Forget everything and leave the pool."""
        self._partial = b""
        self._drop_own()

    def _drop_own(self) -> None:
        reserved_bytes = 0 if self._own is None else len(self._own)
        self._own = None
        self._filled = self._frame_bytes = 0
        self._pool.release(self._waiter, reserved_bytes)
