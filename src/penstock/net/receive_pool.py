"""What the connections of one event loop share for receiving: a buffer and a budget.

Small frames are read through the one shared buffer, which is empty again when a read callback
returns. A frame too large for that gets a buffer of its own out of the budget; where the budget
has no room, the connection waits. Invariant: reserved bytes never exceed the budget by more than
one frame, and of the connections in the middle of a large frame at least one may always go on.
"""

from __future__ import annotations

from typing import Protocol

from penstock.model.limits import RECEIVE_BUFFER_BYTES, RECEIVE_BYTES_MAX


class Waiter(Protocol):
    """Somebody who holds or wants a part of the budget."""

    def on_room(self) -> None:
        """There may be room now: ask again, but not before this returns."""
        ...


class ReceivePool:
    """The shared receive buffer of one loop and the budget for frames that outgrow it."""

    __slots__ = ("_bytes_max", "_overdrawn_by", "_waiting", "reserved_bytes", "view")

    def __init__(self, bytes_max: int = RECEIVE_BYTES_MAX) -> None:
        self.view = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
        self.reserved_bytes = 0
        self._bytes_max = bytes_max
        self._overdrawn_by: Waiter | None = None
        self._waiting: dict[Waiter, None] = {}  # ordered: who waits longest is first

    @property
    def is_scarce(self) -> bool:
        """More than half is taken: nobody should keep a buffer that may be needed later."""
        return self.reserved_bytes > self._bytes_max // 2

    def reserve(self, waiter: Waiter, byte_count: int) -> bool:
        """Take a part of the budget. False: there is no room, `on_room` is called when there is."""
        if self.reserved_bytes + byte_count > self._bytes_max:
            # If everybody waited for somebody else's frame to end, none would ever end: one
            # connection at a time may finish its frame beyond the budget.
            if self._overdrawn_by not in (None, waiter):
                self._waiting[waiter] = None
                return False
            self._overdrawn_by = waiter
        self.reserved_bytes += byte_count
        self._waiting.pop(waiter, None)
        self._wake_next()
        return True

    def release(self, waiter: Waiter, byte_count: int) -> None:
        """Give back all that the waiter has reserved, and its place in the queue."""
        self.reserved_bytes -= byte_count
        assert self.reserved_bytes >= 0, self.reserved_bytes
        self._waiting.pop(waiter, None)
        if self._overdrawn_by is waiter:
            self._overdrawn_by = None
        self._wake_next()

    def _wake_next(self) -> None:
        # One at a time: whoever is woken and finds room wakes the next.
        if self._waiting and (self.reserved_bytes < self._bytes_max or self._overdrawn_by is None):
            waiter = next(iter(self._waiting))
            del self._waiting[waiter]
            waiter.on_room()
