"""Rounds: one after the other, sooner when woken, and on after one that failed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from penstock.broker.turns.rounds import Rounds

LATER_S = 3600.0


class Walk:
    """Counts rounds, each of which says when the next one is due."""

    def __init__(self, due_s: float | None) -> None:
        self.count = 0
        self.is_failing = False
        self._due_s = due_s

    async def go(self) -> float | None:
        self.count += 1
        if self.is_failing:
            raise RuntimeError("a bug")
        return self._due_s


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def rounds_of(go: Callable[[], Awaitable[float | None]], pause_s: float) -> Rounds:
    rounds = Rounds("Walking", go, pause_s)
    rounds.start()
    await settle()
    return rounds


async def test_the_first_waits_its_pause_unless_woken() -> None:
    walk = Walk(LATER_S)
    rounds = await rounds_of(walk.go, LATER_S)
    assert walk.count == 0
    rounds.wake()
    await settle()
    assert walk.count == 1
    await rounds.stop()


@pytest.mark.parametrize("due_s", [None, LATER_S])
async def test_each_wake_brings_one_round(due_s: float | None) -> None:
    walk = Walk(due_s)
    rounds = await rounds_of(walk.go, LATER_S)
    for count in range(1, 4):
        rounds.wake()
        await settle()
        assert walk.count == count
    await rounds.stop()


async def test_a_wake_during_a_round_brings_another() -> None:
    under_way, may_end, counts = asyncio.Event(), asyncio.Event(), [0]

    async def go() -> None:
        counts[0] += 1
        under_way.set()
        await may_end.wait()

    rounds = await rounds_of(go, LATER_S)
    rounds.wake()
    await under_way.wait()
    rounds.wake()
    await settle()
    assert counts == [1], "one at a time"
    may_end.set()
    await settle()
    assert counts == [2]
    await rounds.stop()


async def test_what_is_due_at_once_needs_no_waking() -> None:
    walk = Walk(0.0)
    rounds = await rounds_of(walk.go, 0.0)
    while walk.count < 3:
        await asyncio.sleep(0)
    await rounds.stop()
    count = walk.count
    await settle()
    assert walk.count == count, "none after the end"


async def test_a_round_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    walk = Walk(None)
    walk.is_failing = True
    rounds = await rounds_of(walk.go, LATER_S)
    with caplog.at_level(logging.ERROR):
        rounds.wake()
        await settle()
    assert "Walking failed in a way nobody foresaw" in caplog.text
    walk.is_failing = False
    rounds.wake()
    await settle()
    assert walk.count == 2
    await rounds.stop()


async def test_what_was_never_started_can_be_stopped() -> None:
    await Rounds("Walking", Walk(None).go, LATER_S).stop()
