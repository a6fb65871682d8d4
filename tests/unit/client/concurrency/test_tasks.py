"""Background tasks end with their owner, and a bug in one is not silent."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.concurrency.tasks import TaskScope, all_of, in_parts


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


async def test_when_one_fails_the_others_end_with_it() -> None:
    before = asyncio.all_tasks()

    async def work(number: int) -> int:
        if number == 2:
            raise LookupError
        if number == 3:
            await asyncio.Event().wait()
        return number

    assert await all_of(work(number) for number in range(2)) == [0, 1]
    with pytest.raises(LookupError):
        await all_of(work(number) for number in (1, 2, 3))
    assert asyncio.all_tasks() == before


async def test_many_calls_are_made_in_parts_and_answered_in_order() -> None:
    under_way = most = 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return 2 * number

    assert await in_parts(work, range(250)) == [2 * number for number in range(250)]
    assert most == 100
    assert await in_parts(work, []) == []
