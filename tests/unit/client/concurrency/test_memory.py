"""The memory bound holds and is fair."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.concurrency.memory import MemoryBound


async def test_the_limit_holds() -> None:
    memory = MemoryBound(100)
    assert memory.try_reserve(60)
    assert not memory.try_reserve(41)
    assert memory.try_reserve(40)
    memory.release(100)
    assert memory.reserved_bytes == 0


async def test_who_asks_first_is_served_first() -> None:
    memory = MemoryBound(100)
    assert memory.try_reserve(100)
    served: list[str] = []

    async def ask(name: str, size_bytes: int) -> None:
        async with memory.turn:
            while not memory.try_reserve(size_bytes, is_first=True):
                await memory.wait_for_release()
        served.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(ask("large", 80))
        await asyncio.sleep(0)
        group.create_task(ask("small", 10))
        await asyncio.sleep(0)
        assert not memory.try_reserve(1), "nobody passes those who wait"
        memory.release(50)  # enough for the small one, which is second
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert served == []
        memory.release(50)
    assert served == ["large", "small"]
    assert memory.reserved_bytes == 90


async def test_one_who_gives_up_has_reserved_nothing() -> None:
    memory = MemoryBound(100)
    assert memory.try_reserve(100)

    async def wait() -> None:
        async with memory.turn:
            await memory.wait_for_release()

    waiting = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    memory.release(100)
    assert memory.reserved_bytes == 0
    assert memory.try_reserve(100)
