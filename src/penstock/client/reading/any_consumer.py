"""What consumers of every kind have in common: each begins once and ends once.

Not what is read, nor what is said of it. The invariant: a consumer that was closed, or could not
begin when it was entered, reads nothing any more, and its client has forgotten it.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable
from typing import Self, TypeVar

from penstock.client.concurrency.callbacks import check_outside_callbacks, is_in_callback
from penstock.model.errors import ClientClosed, InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.records import Message

ResultT = TypeVar("ResultT")


class AnyConsumer(ABC):
    """Begins when it is entered or first read."""

    def __init__(self, on_end: Callable[[AnyConsumer], None]) -> None:
        self._on_end = on_end
        # Held by whoever changes what is read, first of all by the beginning.
        self._changing = asyncio.Lock()
        self._is_started = False
        self._is_closed = False

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Find the topics and where to begin in them, and join the group if there is one. Reading
        does it too; "latest" means from here on."""
        if self._is_closed:
            raise ClientClosed("The consumer was closed: make another one to go on.")
        if self._is_started or is_in_callback(self._changing):
            return
        async with self._changing:
            if not self._is_started:  # else somebody else did it while this waited
                await self._begin()
                self._is_started = True

    async def close(self) -> None:
        """Have the group told all that was said of messages, and stop reading."""
        check_outside_callbacks(self._changing)
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._end()
        finally:
            self._on_end(self)

    @property
    @abstractmethod
    def partitions(self) -> list[TopicPartition]:
        """What is being read."""

    @abstractmethod
    async def next_hand(self) -> Iterable[Message]:
        """The next messages, of which those are the reader's that it takes; for facades."""

    @abstractmethod
    async def _begin(self) -> None:
        """Once, unless it fails."""

    @abstractmethod
    async def _end(self) -> None:
        """Once, whether or not it has begun."""

    async def _in_time(
        self, timeout_s: float | None, reading: Callable[[], Awaitable[ResultT]]
    ) -> ResultT | None:
        """What is read, or None if the time is over first. Beginning does not count."""
        await self.start()
        try:
            async with asyncio.timeout(timeout_s):
                return await reading()
        except TimeoutError:
            return None


def check_count(max_messages: int | None) -> None:
    if max_messages is not None and max_messages < 1:
        raise InvalidRequest(f"max_messages is {max_messages}: it must be at least 1.")
