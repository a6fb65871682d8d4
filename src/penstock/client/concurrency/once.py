"""Work that several may ask for at once and that is done once for all of them.

No cache: who asks after the end begins it anew. The invariant: at most one piece of work runs per
key, and a caller who is cancelled does not take it away from the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from penstock.model.errors import ClientClosed

KeyT = TypeVar("KeyT", bound=Hashable)
ResultT = TypeVar("ResultT")


class Once(Generic[KeyT, ResultT]):
    """Pieces of work under way, by key."""

    def __init__(self) -> None:
        self._tasks: dict[KeyT, asyncio.Task[ResultT]] = {}

    async def join(self, key: KeyT, work: Callable[[], Coroutine[Any, Any, ResultT]]) -> ResultT:
        """The result of the work for this key, which begins now unless it is under way."""
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(work())
            self._tasks[key] = task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise ClientClosed from None  # the work was cancelled, not the caller
            raise

    async def close(self) -> None:
        """Cancel what is under way; those who wait for it get ClientClosed."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: KeyT, task: asyncio.Task[ResultT]) -> None:
        del self._tasks[key]
        if not task.cancelled():
            task.exception()  # seen, even if everybody who waited for it has gone
