"""What has come and waits for the reader, and how much more may come.

Not how it comes, nor what it is: chunks of batches are counted in bytes, leased messages one by
one. The invariant: a feed that stopped for want of room goes on when there is some again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sized
from typing import Generic, TypeVar

ItemT = TypeVar("ItemT")


class Buffer(Generic[ItemT]):
    """Of one consumer."""

    def __init__(
        self,
        limit: int,
        feeds: Sized,
        size_of: Callable[[ItemT], int] | None = None,
    ) -> None:
        """feeds: those among which the limit is divided, now and later. size_of: what one counts;
        None: each is one."""
        self._limit = limit
        self._size_of = size_of
        self._feeds = feeds
        self._items: deque[ItemT] = deque()
        self._used = 0
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        # Who wants to know when there is room again. A dict: in the order of asking.
        self._waiting: dict[Callable[[], None], None] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ItemT]:
        return iter(self._items)

    @property
    def room(self) -> int:
        """How much more may be asked for; nothing, or less, where answers have gone beyond it."""
        return self._limit - self._used

    @property
    def share(self) -> int:
        """How much one feed may have on its way: all of them ask at the same time."""
        return max(self._limit // max(len(self._feeds), 1), 1)

    def add(self, items: Collection[ItemT]) -> None:
        self._items.extend(items)
        self._used += self._total(items)
        self._news.set()

    def take(self) -> ItemT | None:
        """The next one, if there is one; from now on it is the reader's."""
        if not self._items:
            return None
        item = self._items.popleft()
        self._release(1 if self._size_of is None else self._size_of(item))
        return item

    def drop(self, is_gone: Callable[[ItemT], bool]) -> list[ItemT]:
        """Those of which this is true, which nobody takes any more."""
        dropped = [item for item in self._items if is_gone(item)]
        if dropped:
            self._items = deque(item for item in self._items if not is_gone(item))
            self._release(self._total(dropped))
        return dropped

    def when_room(self, tell: Callable[[], None]) -> None:
        """Have it called, once, when there is room again, of which there is none now."""
        self._waiting[tell] = None

    def wake(self) -> None:
        """There is something for the reader to know."""
        self._news.set()

    async def wait(self) -> None:
        """Until there may be one to take, or something to know."""
        self._news.clear()
        await self._news.wait()

    def _total(self, items: Collection[ItemT]) -> int:
        return len(items) if self._size_of is None else sum(map(self._size_of, items))

    def _release(self, size: int) -> None:
        before = self._used
        self._used -= size
        if before >= self._limit > self._used and self._waiting:
            # A turn later: the reader may be taking more, which is then asked for together.
            self._loop.call_soon(self._tell_room)

    def _tell_room(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for tell in waiting:
            tell()
