"""Telling in the background: gathered, call by call, again where that may help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from penstock.client.concurrency.backoff import Backoff
from penstock.client.reading.teller import Teller
from penstock.model.errors import Busy, PenstockError, StorageFailed


class Numbers(Teller):
    """Tells numbers to a list, unless it is to fail."""

    def __init__(self) -> None:
        super().__init__(0.001, Backoff(first_s=0.001, longest_s=0.001))
        self.said: list[int] = []
        self.told: list[list[int]] = []
        self.failing: list[PenstockError] = []
        self.calls = asyncio.Semaphore(0)

    def say(self, number: int) -> None:
        self.said.append(number)
        self.wake()

    async def until_told(self) -> None:
        async with asyncio.timeout(10):
            await self.calls.acquire()
        await asyncio.sleep(0)

    async def _tell(self) -> None:
        said, self.said = self.said, []
        self.told.append(said)
        await asyncio.sleep(0)
        self.calls.release()
        if self.failing:
            error = self.failing.pop()
            self.said = said + self.said
            raise error

    def _passes(self, error: PenstockError) -> bool:
        return error.retriable


@pytest.fixture
async def numbers() -> AsyncIterator[Numbers]:
    numbers = Numbers()
    running = asyncio.create_task(numbers.run())
    yield numbers
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_is_said_in_one_moment_is_told_together(numbers: Numbers) -> None:
    for number in range(3):
        numbers.say(number)
    await numbers.until_told()
    numbers.say(3)
    await numbers.until_told()
    assert numbers.told == [[0, 1, 2], [3]]


async def test_what_passes_is_told_again(numbers: Numbers) -> None:
    numbers.failing = [Busy(), Busy()]
    numbers.say(1)
    for _ in range(3):
        await numbers.until_told()
    assert numbers.told == [[1]] * 3
    numbers.raise_failure()


async def test_what_was_refused_is_raised_once(numbers: Numbers) -> None:
    numbers.failing = [StorageFailed("No disk.")]
    numbers.say(1)
    await numbers.until_told()
    with pytest.raises(StorageFailed, match="No disk"):
        numbers.raise_failure()
    numbers.raise_failure()
    numbers.say(2)
    await numbers.until_told()
    assert numbers.told == [[1], [1, 2]]
