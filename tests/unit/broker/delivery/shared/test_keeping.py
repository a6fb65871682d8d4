"""States that the coordinator does not take at once: tried again, and told of by the minute."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from penstock.broker.delivery.shared.keeping import Keeper
from penstock.model.errors import DiskFull, NotLeader, PenstockError, StaleTerm, UnknownGroup
from tests.kit.simulation.loop import VirtualLoop


class Bench:
    """A coordinator that refuses for a while, on a timeline."""

    def __init__(self, error: PenstockError, until_s: float) -> None:
        self.loop = VirtualLoop()
        self.tried_s: list[float] = []
        self.kept: list[bytes] = []
        self.keeper = Keeper(lambda: int(self.loop.time() * 1000))
        self._error = error
        self._until_s = until_s

    async def write(self, state: bytes) -> None:
        self.tried_s.append(self.loop.time())
        if self.loop.time() < self._until_s:
            raise self._error
        self.kept.append(state)

    def run(self, life: Callable[[], Awaitable[None]]) -> None:
        async def lived() -> None:
            await life()

        self.loop.run_until_complete(lived())
        self.loop.close()


def test_a_full_disk_is_told_of_by_the_minute(caplog: pytest.LogCaptureFixture) -> None:
    """However many groups wait, and however often they try; it is over when all of them are."""
    caplog.set_level(logging.INFO)
    bench = Bench(DiskFull("The disk is full."), 130)

    async def life() -> None:
        groups = [b"%d" % number for number in range(10)]
        await asyncio.gather(*(bench.keeper.keep(bench.write, state) for state in groups))
        assert sorted(bench.kept) == groups
        assert bench.loop.time() < 131.1
        await asyncio.sleep(5)

    bench.run(life)
    first, minute, two_minutes, over = caplog.messages
    what = "What shared groups have settled"
    assert first == f"{what} cannot be written, and is tried again: The disk is full."
    assert minute.startswith(f"{what} still cannot be written after 60 s and ")
    assert two_minutes.startswith(f"{what} still cannot be written after 120 s and ")
    assert over.startswith(f"{what} can be written again, after 13")


def test_what_lasts_is_tried_less_often() -> None:
    bench = Bench(DiskFull("The disk is full."), 60)
    bench.run(lambda: bench.keeper.keep(bench.write, b""))
    waits = [later - earlier for earlier, later in pairwise(bench.tried_s)]
    assert waits[0] == pytest.approx(0.1)
    assert all(after >= before - 0.01 for before, after in pairwise(waits))
    assert waits[-1] == pytest.approx(1)
    assert len(bench.tried_s) < 70


def test_an_election_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """The coordinator is somewhere else a second later."""
    caplog.set_level(logging.INFO)
    bench = Bench(NotLeader(), 1)
    bench.run(lambda: bench.keeper.keep(bench.write, b"state"))
    assert bench.kept == [b"state"]
    assert bench.loop.time() < 1.6
    assert caplog.messages == []


@pytest.mark.parametrize("error", [StaleTerm(), UnknownGroup()])
def test_what_never_would_be_taken_is_not_tried_again(error: PenstockError) -> None:
    bench = Bench(error, 60)

    async def life() -> None:
        with pytest.raises(type(error)):
            await bench.keeper.keep(bench.write, b"")

    bench.run(life)
    assert bench.tried_s == [0]
