"""Coroutines on a timeline: whoever waits for time does not wait.

The invariant: the loop and what else is planned on the timeline have one order of events. What
nobody was told of while it ran, `failures` has: nothing is said of it later, in other tests.
"""

from __future__ import annotations

import asyncio
import math
import selectors
from random import Random
from typing import Any

from tests.kit.simulation.timeline import Timeline
from tests.kit.simulation.trace import Trace


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the timeline's."""

    def __init__(self, timeline: Timeline | None = None) -> None:
        self.timeline = timeline or Timeline(Random(0), Trace())
        super().__init__(_VirtualSelector(self.timeline))
        self.failures: list[BaseException | str] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def create_task(self, *given: Any, **how: Any) -> asyncio.Task[Any]:
        task = super().create_task(*given, **how)
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context.get("exception") or str(context["message"]))

    def close(self) -> None:
        for task in self._tasks:
            nobody_asked = task.done() and not task.cancelled() and task._log_traceback
            if nobody_asked and (error := task.exception()) is not None:
                self.failures.append(error)
        self._tasks.clear()
        super().close()

    def time(self) -> float:
        return self.timeline.now_ms / 1000


class _VirtualSelector(selectors.SelectSelector):
    def __init__(self, timeline: Timeline) -> None:
        super().__init__()
        self._timeline = timeline

    def select(self, timeout: float | None = None) -> list[Any]:
        """Until something happens on the timeline, or a timer of the loop is due."""
        timeline = self._timeline
        due_ms = timeline.next_ms
        if timeout is not None:
            # What the loop takes for due is a nanosecond late at most.
            wait_ms = max(math.ceil(timeout * 1000 - 1e-6), 1) if timeout > 0 else 0
            until_ms = timeline.now_ms + wait_ms
            due_ms = until_ms if due_ms is None else min(due_ms, until_ms)
        assert due_ms is not None, "everybody waits, and nothing will happen"
        timeline.run_until(due_ms)
        return []
