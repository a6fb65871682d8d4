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

    def try_reserve(self, size_bytes: int) -> bool:
        """Reserve without waiting; False if there is no room or somebody waits for some."""
        if self._queue.locked() or self.reserved_bytes + size_bytes > self.limit_bytes:
            return False
        self.reserved_bytes += size_bytes
        return True

    async def reserve(self, size_bytes: int) -> None:
        """Reserve, waiting for room. Cancelled, it has reserved nothing."""
        assert size_bytes <= self.limit_bytes, f"{size_bytes} of {self.limit_bytes} bytes"
        async with self._queue:
            while self.reserved_bytes + size_bytes > self.limit_bytes:
                self._released.clear()
                await self._released.wait()
            self.reserved_bytes += size_bytes

    def release(self, size_bytes: int) -> None:
        self.reserved_bytes -= size_bytes
        assert self.reserved_bytes >= 0, f"{self.reserved_bytes} bytes reserved"
        self._released.set()
