"""Coroutines and what else is planned on a timeline take place in one order, and nobody waits."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.kit.simulation.loop import VirtualLoop


def run(loop: VirtualLoop, life: Coroutine[Any, Any, None]) -> None:
    try:
        loop.run_until_complete(life)
    finally:
        loop.close()


def test_coroutines_and_events_have_one_order() -> None:
    loop, seen = VirtualLoop(), list[tuple[str, int]]()
    timeline = loop.timeline

    def happens(name: str) -> None:
        seen.append((name, timeline.now_ms))

    async def live() -> None:
        come = loop.create_future()
        for delay_ms in (5, 30):
            timeline.after(delay_ms, lambda: happens("event"))
        timeline.after(40, lambda: come.set_result(None))
        loop.call_later(0.02, happens, "timer")
        await asyncio.sleep(0.0305)
        happens("slept")
        await come
        happens("come")

    run(loop, live())
    # What is due within a millisecond is due at its end.
    assert seen == [("event", 5), ("timer", 20), ("event", 30), ("slept", 31), ("come", 40)]
    assert loop.time() == 0.04


def test_waiting_for_nothing_is_an_error() -> None:
    loop = VirtualLoop()
    with pytest.raises(AssertionError, match="nothing will happen"):
        run(loop, forever(loop))


async def forever(loop: VirtualLoop) -> None:
    await loop.create_future()


def test_what_nobody_was_told_of_is_kept() -> None:
    loop = VirtualLoop()

    async def fail(error: Exception) -> None:
        raise error

    async def live() -> None:
        loop.create_task(fail(ValueError("of a task")))
        loop.call_soon(lambda: 1 // 0)
        told = loop.create_task(fail(KeyError()))
        with contextlib.suppress(KeyError):
            await told

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(live())
    assert [type(failure) for failure in loop.failures] == [ZeroDivisionError, ValueError]
