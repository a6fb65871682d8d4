"""Long work with a turn for everybody else in between."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

from penstock.broker.turns.in_turns import InTurns
from penstock.model.errors import CorruptLog, PenstockError


def counting(pieces: int, done: list[int], error: PenstockError | None = None) -> Counting:
    for piece in range(pieces):
        done.append(piece)
        yield
    if error is not None:
        raise error
    return "all"


Counting = Generator[None, None, str]


async def test_little_work_is_over_at_once() -> None:
    results: list[object] = []
    work = InTurns(counting(0, []), results.append, results.append)
    assert results == ["all"]
    assert work.ended.is_set()


async def test_others_have_a_turn_after_each_piece() -> None:
    done: list[int] = []
    results: list[object] = []
    work = InTurns(counting(3, done), results.append, results.append)
    assert (done, results) == ([0], [])
    await asyncio.sleep(0)
    assert (done, results) == ([0, 1], [])
    await work.ended.wait()
    assert (done, results) == ([0, 1, 2], ["all"])


async def test_what_went_wrong_is_told() -> None:
    results: list[object] = []
    error = CorruptLog()
    work = InTurns(counting(1, [], error), lambda _: None, results.append)
    await work.ended.wait()
    assert results == [error]


async def test_what_is_cancelled_goes_no_further_and_tells_nobody() -> None:
    done: list[int] = []
    results: list[object] = []
    work = InTurns(counting(3, done), results.append, results.append)
    work.cancel()
    work.cancel()
    await work.ended.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    assert (done, results) == ([0], [])
