"""Background tasks with an owner. The invariant: none outlives `close`, none fails unseen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, TypeVar

logger = logging.getLogger(__name__)

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

_AT_ONCE: Final = 100


class TaskScope:
    """The background tasks of one owner, who ends them all when it ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[None, None, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("The task %s ended by a bug.", task.get_name(), exc_info=error)


async def all_of(works: Iterable[Coroutine[Any, Any, ResultT]]) -> list[ResultT]:
    """The results of all of them, at once. When one fails, none of the others runs on."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_parts(
    work: Callable[[ItemT], Coroutine[Any, Any, ResultT]], items: Sequence[ItemT]
) -> list[ResultT]:
    """The results of all of them, in their order, of which so many are under way together as hide
    the way to a broker and back."""
    results: list[ResultT] = []
    for first in range(0, len(items), _AT_ONCE):
        results += await asyncio.gather(*map(work, items[first : first + _AT_ONCE]))
    return results
