"""Bytes on their way out of one socket: buffers and slices of files, in order.

Not here: when to send (`net.connection`). Small buffers leave joined in one system call, large
ones as they are, slices of files straight from the file. Invariant: bytes leave in the order they
were queued, and a buffer that may change is never kept beyond `keep_borrowed`.
"""

from __future__ import annotations

import errno
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from penstock.model.errors import StorageFailed
from penstock.model.limits import KIB, MIB

Buffer = bytes | bytearray | memoryview

# Up to this size copying a buffer into a joined one costs less than its entry in a sendmsg.
JOIN_BYTES_MAX: Final = 16 * KIB
# A slice up to this size is read and leaves with its neighbours; a larger one by sendfile.
READ_SLICE_BYTES_MAX: Final = 64 * KIB
# What may be queued before slices are no longer read ahead of their turn.
READ_AHEAD_BYTES_MAX: Final = 1 * MIB
# What a queued slice counts for: its objects and the descriptor it holds, not its length.
SLICE_COST_BYTES: Final = 4 * KIB
# One turn sends at most about this much, so that one fast reader does not starve the others.
TURN_BYTES_MAX: Final = 4 * MIB
# The most that one system call is given; the kernel takes less at once in any case.
_CALL_BYTES_MAX: Final = 1 * MIB
# POSIX promises 16 entries; Linux and BSD take 1024.
_VECTOR_ENTRIES_MAX: Final = 512
_SENDFILE_REFUSED: Final = {
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOTSOCK,
}
# Lets a head wait for the file's bytes that follow, so that both share packets (Linux only).
_MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)


class FileSlice(Protocol):
    """A part of a file that can be sent without being read. Storage's slices look like this."""

    @property
    def position(self) -> int: ...
    @property
    def length(self) -> int: ...
    def fileno(self) -> int:
        """The file's descriptor, or -1 if there is none."""
        ...

    def read(self) -> bytes: ...


class _Sending:
    """A slice and how much of it has left."""

    __slots__ = ("end", "position", "slice")

    def __init__(self, file_slice: FileSlice) -> None:
        self.slice = file_slice
        self.position = file_slice.position
        self.end = file_slice.position + file_slice.length


class Outbox:
    """The write queue of one connection."""

    __slots__ = (
        "_borrowed",
        "_items",
        "_room_waiters",
        "_sliced_bytes",
        "queued_bytes",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self._items: deque[bytes | memoryview | _Sending] = deque()
        self._borrowed = False
        # What the queue holds in memory; slices count SLICE_COST_BYTES each.
        self.queued_bytes = 0
        # What is left to send of slices.
        self._sliced_bytes = 0
        self.sent_bytes = 0
        # How little must be unsent before each is called.
        self._room_waiters: list[tuple[int, Callable[[], None]]] = []

    @property
    def unsent_bytes(self) -> int:
        """What has to leave before that which is queued next, slices with all their bytes."""
        return self.queued_bytes + self._sliced_bytes

    def __bool__(self) -> bool:
        return bool(self._items)

    def add(self, buffer: bytes) -> None:
        """Queue bytes that will not change."""
        self._items.append(buffer)
        self.queued_bytes += len(buffer)

    def borrow(self, buffer: Buffer) -> None:
        """Queue a buffer that may change after the next `keep_borrowed`."""
        view = memoryview(buffer).cast("B")
        self._borrowed = self._borrowed or not view.readonly
        self._items.append(view)
        self.queued_bytes += len(view)

    def add_slice(self, head: bytes, file_slice: FileSlice) -> None:
        """Queue a head and a slice. A small slice, or one without a descriptor, is read now, and
        what fails then is raised before anything is queued; but where much is queued already it
        stays a slice, or a peer that does not read could fill the memory with them."""
        has_room = self.queued_bytes < READ_AHEAD_BYTES_MAX
        is_small = file_slice.length <= (READ_SLICE_BYTES_MAX if has_room else 0)
        if is_small or file_slice.fileno() < 0:
            data = file_slice.read()
            if len(data) != file_slice.length:
                raise _truncated(file_slice, len(data))
            self.add(head)
            self.add(data)
        else:
            self.add(head)
            self._items.append(_Sending(file_slice))
            self.queued_bytes += SLICE_COST_BYTES
            self._sliced_bytes += file_slice.length

    def keep_borrowed(self) -> None:
        """Copy what is queued of buffers that may change from now on."""
        if self._borrowed:
            self._borrowed = False
            for index, item in enumerate(self._items):
                if isinstance(item, memoryview) and not item.readonly:
                    self._items[index] = bytes(item)

    def clear(self) -> None:
        """Forget what is queued, and who waits."""
        self._items.clear()
        self._room_waiters.clear()
        self.queued_bytes = self._sliced_bytes = 0

    def when_room(self, unsent_bytes: int, then: Callable[[], None]) -> None:
        """Call `then` once, at the end of the flush that leaves no more than so much unsent. It
        must not queue anything: that is for a turn of its own."""
        self._room_waiters.append((unsent_bytes, then))

    def flush(self, to: socket.socket) -> None:
        """Send until the queue is empty, the socket is full or the turn is over.

        Raises OSError if the socket or a file fails, StorageFailed if a file ends too early.
        """
        self._send_items(to)
        if self._room_waiters:
            unsent_bytes = self.unsent_bytes
            waiters, self._room_waiters = self._room_waiters, []
            for waiter in waiters:
                if waiter[0] < unsent_bytes:
                    self._room_waiters.append(waiter)
                else:
                    waiter[1]()

    def _send_items(self, to: socket.socket) -> None:
        turn_end = self.sent_bytes + TURN_BYTES_MAX
        try:
            while self._items and self.sent_bytes < turn_end:
                first = self._items[0]
                if isinstance(first, _Sending):
                    is_open = self._send_slice(to, first)
                else:
                    is_open = self._send_buffers(to)
                if not is_open:
                    return
        except (BlockingIOError, InterruptedError):
            return

    def _send_buffers(self, to: socket.socket) -> bool:
        """Send the buffers at the head of the queue; False if the socket took only a part."""
        vector, byte_count = self._take_buffers()
        flags = _MORE_FOLLOWS if self._items and isinstance(self._items[0], _Sending) else 0
        sent = 0
        try:
            if len(vector) == 1:
                sent = to.send(vector[0], flags)
            else:
                sent = to.sendmsg(vector, (), flags)
        finally:
            self.queued_bytes -= sent
            self.sent_bytes += sent
            if sent < byte_count:
                self._put_back(vector, sent)
        return sent == byte_count

    def _take_buffers(self) -> tuple[list[bytes | memoryview], int]:
        """Take buffers off the queue for one system call, runs of small ones joined."""
        items = self._items
        vector: list[bytes | memoryview] = []
        run: list[bytes | memoryview] = []
        byte_count = 0
        while items and byte_count < _CALL_BYTES_MAX and len(vector) < _VECTOR_ENTRIES_MAX:
            item = items[0]
            if isinstance(item, _Sending):
                break
            items.popleft()
            byte_count += len(item)
            if len(item) <= JOIN_BYTES_MAX:
                run.append(item)
                continue
            if run:
                vector.append(b"".join(run))
                run = []
            vector.append(item)
        if run:
            vector.append(b"".join(run) if len(run) > 1 else run[0])
        return vector, byte_count

    def _put_back(self, vector: list[bytes | memoryview], sent: int) -> None:
        """Queue what the socket did not take again, at the head."""
        rest: list[bytes | memoryview] = []
        for item in vector:
            if sent >= len(item):
                sent -= len(item)
                continue
            rest.append(memoryview(item)[sent:] if sent else item)
            sent = 0
        self._items.extendleft(reversed(rest))

    def _send_slice(self, to: socket.socket, sending: _Sending) -> bool:
        """Send from the slice at the head of the queue; False if the socket took only a part."""
        wanted = min(sending.end - sending.position, _CALL_BYTES_MAX)
        source = sending.slice.fileno()
        try:
            sent = os.sendfile(to.fileno(), source, sending.position, wanted)
            is_at_end = sent == 0
        except OSError as error:
            if error.errno not in _SENDFILE_REFUSED:
                raise
            data = os.pread(source, wanted, sending.position)
            sent = to.send(data) if data else 0
            is_at_end = not data
        if is_at_end:
            raise _truncated(sending.slice, sending.position - sending.slice.position)
        sending.position += sent
        self._sliced_bytes -= sent
        self.sent_bytes += sent
        if sending.position == sending.end:
            self._items.popleft()
            self.queued_bytes -= SLICE_COST_BYTES
        return sent == wanted


def _truncated(file_slice: FileSlice, found_bytes: int) -> StorageFailed:
    return StorageFailed(
        f"The file ends {found_bytes} bytes after position {file_slice.position}, where"
        f" {file_slice.length} bytes were to be sent: it was cut short under a reader."
    )
