"""The tasks of handlers that wait for something, whichever protocol they answer; and what those
need whose waiter may be gone.

The invariant: a task is kept until it ends, and none outlives `finish`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from penstock.model.errors import PenstockError

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


class HandlerTasks:
    """One per dispatcher."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, handling: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(handling)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self, timeout_s: float) -> None:
        """Wait for the handlers that are under way, but not for ever."""
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def note_bug(task: asyncio.Task[Any]) -> None:
    """Nobody may be waiting for the task to see what it ended by."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, PenstockError):
        logger.error("A task ended by a bug.", exc_info=error)


def settle(waiting: asyncio.Future[ResultT], result: ResultT) -> None:
    """Whoever waited may be gone."""
    if not waiting.done():
        waiting.set_result(result)
