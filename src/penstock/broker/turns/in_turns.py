"""Long work on the event loop, done a piece at a time, with a turn for everybody else in between.

The work is a generator that yields where it may pause. The invariants: the first piece is done at
once, so that little work is over when `InTurns` is made; and after `cancel` nobody is called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import Generic, TypeVar

from penstock.model.errors import PenstockError

ResultT = TypeVar("ResultT")


class InTurns(Generic[ResultT]):
    """All calls come from the event loop."""

    def __init__(
        self,
        work: Generator[None, None, ResultT],
        over: Callable[[ResultT], None],
        failed: Callable[[PenstockError], None],
    ) -> None:
        """Begin. over: is told what the work came to. failed: or what it ended by."""
        self._work = work
        self._over = over
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Handle | None = None
        self.ended = asyncio.Event()
        self._go_on()

    def cancel(self) -> None:
        """Leave it as it is."""
        if self._next is not None:
            self._next.cancel()
        self._work.close()
        self.ended.set()

    def _go_on(self) -> None:
        try:
            next(self._work)
        except StopIteration as stop:
            self.ended.set()
            self._over(stop.value)
        except PenstockError as error:
            self.ended.set()
            self._failed(error)
        else:
            self._next = self._loop.call_soon(self._go_on)
