"""Shared work is done once, for everybody, and survives one who leaves."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.concurrency.once import Once
from penstock.model.errors import ClientClosed, ConnectionLost


async def test_all_who_ask_meanwhile_share_one_piece_of_work() -> None:
    shared: Once[str, int] = Once()
    gate = asyncio.Event()
    begun = 0

    async def work() -> int:
        nonlocal begun
        begun += 1
        await gate.wait()
        return begun

    first, second, leaver = (asyncio.ensure_future(shared.join("key", work)) for _ in range(3))
    await asyncio.sleep(0)
    leaver.cancel()
    gate.set()
    assert [await first, await second] == [1, 1]
    with pytest.raises(asyncio.CancelledError):
        await leaver
    assert await shared.join("key", work) == 2, "nothing is remembered"


async def test_everybody_is_told_of_a_failure() -> None:
    shared: Once[str, int] = Once()

    async def work() -> int:
        raise ConnectionLost

    for outcome in await asyncio.gather(
        shared.join("key", work), shared.join("key", work), return_exceptions=True
    ):
        assert isinstance(outcome, ConnectionLost)


async def test_closing_tells_those_who_wait() -> None:
    shared: Once[str, None] = Once()
    waiting = asyncio.ensure_future(shared.join("key", asyncio.Event().wait))  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(ClientClosed):
        await waiting
