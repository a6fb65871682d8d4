"""Runs children in stages: a stage starts when the one before is ready, and ends after those that
came later have ended.

Knows nothing of brokers. The invariant: when `run` returns or raises, no child is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence

from penstock.cli.local_cluster.child import Child


class Supervisor:
    """`stages`: what needs nothing first. `settle`: returns when those of the last stage, which are
    ready, are of use together."""

    def __init__(
        self,
        stages: Sequence[Sequence[Child]],
        settle: Callable[[], Coroutine[object, object, None]] | None = None,
    ) -> None:
        self._stages = stages
        self._settle = settle
        self._running: list[asyncio.Task[None]] = []

    @property
    def children(self) -> list[Child]:
        return [child for stage in self._stages for child in stage]

    async def run(self, ending: asyncio.Event, on_ready: Callable[[], None]) -> bool:
        """Until `ending` is set (True), or no child of the last stage is left (False).
        UnavailableError if one does not start."""
        try:
            if not await self._start(ending):
                return True
            on_ready()
            last = self._running[-len(self._stages[-1]) :]
            return await self._until(ending, last)
        finally:
            await self._stop()

    def kill(self) -> None:
        """End all of them at once."""
        for child in self.children:
            child.kill()

    async def _start(self, ending: asyncio.Event) -> bool:
        """Whether all of them are ready; else `ending` was set before."""
        for stage in self._stages:
            self._running += [asyncio.ensure_future(child.run()) for child in stage]
            if not await self._have(ending, _all_ready(stage)):
                return False
        return self._settle is None or await self._have(ending, self._settle())

    async def _have(self, ending: asyncio.Event, waiting: Coroutine[object, object, None]) -> bool:
        """Whether it has come; else `ending` was set before."""
        task = asyncio.ensure_future(waiting)
        try:
            return not await self._until(ending, [task])
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _until(self, ending: asyncio.Event, done: Sequence[asyncio.Task[None]]) -> bool:
        """Wait for `ending` or for all of those; which of the two. The error of a child that has
        not started goes to whoever waits."""
        asked = asyncio.ensure_future(ending.wait())
        pending: set[asyncio.Task[None]] = {*done, *self._running}
        try:
            while not asked.done() and not all(task.done() for task in done):
                ended, _ = await asyncio.wait(
                    {asked, *pending}, return_when=asyncio.FIRST_COMPLETED
                )
                for task in ended & pending:
                    pending.discard(task)
                    task.result()
            return asked.done()
        finally:
            asked.cancel()

    async def _stop(self) -> None:
        for stage in reversed(self._stages):
            await asyncio.gather(*(child.stop() for child in stage))
        await asyncio.gather(*self._running, return_exceptions=True)


async def _all_ready(stage: Sequence[Child]) -> None:
    for child in stage:
        await child.ready.wait()
