"""Background tasks end with their owner, and a bug in one is not silent."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.tasks import TaskScope


async def test_closing_ends_what_runs() -> None:
    scope = TaskScope()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    scope.start(work(), name="work")
    await asyncio.sleep(0)
    await scope.close()
    assert ended.is_set()


async def test_a_bug_is_logged_with_the_name_of_the_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scope = TaskScope()

    async def work() -> None:
        raise LookupError("a bug")

    task = scope.start(work(), name="the work")
    await asyncio.wait([task])
    await asyncio.sleep(0)
    assert "the work" in caplog.text
    assert "a bug" in caplog.text
    await scope.close()
