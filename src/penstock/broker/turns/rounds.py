"""Work that comes round again and again, in a task of its own: when its time has come, or sooner
if somebody wakes it.

Not the work. The invariants: one round is over before the next begins; one that fails by a bug of
ours does not end those after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable

logger = logging.getLogger(__name__)


class Rounds:
    """`start` and `stop` belong to the broker's life."""

    def __init__(
        self, what: str, go_round: Callable[[], Awaitable[float | None]], pause_s: float
    ) -> None:
        """what: the beginning of a sentence that goes on with "failed". go_round: one round; how
        many seconds later the next is due, None for when it is woken. pause_s: before the first,
        and after one that failed."""
        self._what = what
        self._go_round = go_round
        self._pause_s = pause_s
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        """Let the next round begin at once, or when the one under way is over."""
        self._woken.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        wait_s: float | None = self._pause_s
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._woken.wait()
            self._woken.clear()
            try:
                wait_s = await self._go_round()
            except Exception:
                logger.exception("%s failed in a way nobody foresaw", self._what)
                wait_s = self._pause_s
