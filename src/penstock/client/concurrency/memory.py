"""A bound on the bytes that somebody may hold at once, with a fair queue in front of it.

It counts; it allocates nothing. The invariant: what is reserved never exceeds the limit, and who
asked first is served first.
"""

from __future__ import annotations

import asyncio


class MemoryBound:
    """Bytes reserved and released, within a limit."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.reserved_bytes = 0
        self._queue = asyncio.Lock()  # asyncio's lock is fair: first come, first served
        self._released = asyncio.Event()

    def try_reserve(self, size_bytes: int, *, is_first: bool = False) -> bool:
        """Reserve without waiting; False if there is no room, or somebody waits for some.

        is_first: the caller has the turn, so nobody is before it.
        """
        assert size_bytes <= self.limit_bytes, f"{size_bytes} of {self.limit_bytes} bytes"
        if self._queue.locked() and not is_first:
            return False
        if self.reserved_bytes + size_bytes > self.limit_bytes:
            return False
        self.reserved_bytes += size_bytes
        return True

    @property
    def turn(self) -> asyncio.Lock:
        """To be held by who waits for room: one after the other, in the order of asking."""
        return self._queue

    async def wait_for_release(self) -> None:
        """Until something is released, which need not be enough. Only for who has the turn."""
        assert self._queue.locked(), "wait without the turn"
        self._released.clear()
        await self._released.wait()

    def release(self, size_bytes: int) -> None:
        self.reserved_bytes -= size_bytes
        assert self.reserved_bytes >= 0, f"{self.reserved_bytes} bytes reserved"
        self._released.set()
