"""Lanes that are behind: one reads for all, and none is told of anything twice."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.broker.delay import catch_up as catch_up_module
from penstock.broker.delay.catch_up import CatchUp
from penstock.coordination.delay.records import NOTHING_DUE, Due
from penstock.model.errors import CorruptLog, PenstockError
from penstock.storage.due.index import DueReader
from penstock.storage.due.run import Entry
from tests.kit.broker.delay import Life, living
from tests.kit.simulated_disk import SimulatedDisk

FRONTIER = Due(10_000, 10_000)


class Lane:
    """Takes what it is told, and asks for more."""

    def __init__(self, number: int, catch_up: CatchUp, seen: Due = NOTHING_DUE) -> None:
        self.number = number
        self.seen = seen
        self.numbers: list[int] = []
        self.is_at_end = False
        self.error: PenstockError | None = None
        self._catch_up = catch_up
        catch_up.seek(self)

    def found(self, entries: Sequence[Entry], seen: Due, is_at_end: bool) -> None:
        assert seen >= self.seen
        self.seen, self.is_at_end = seen, is_at_end
        self.numbers += [entry.number for entry in entries]
        if entries and not is_at_end:
            self._catch_up.seek(self)

    def failed(self, error: PenstockError) -> None:
        self.error = error


def fill(life: Life, messages: int, lanes: int) -> None:
    """The lanes' messages, in turns."""
    for number in range(1, messages + 1):
        life.store.index.put(number, number, number, 1 + number % lanes, 10)
    life.store.table.frontier = FRONTIER


async def test_what_one_reads_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """R-DEL-13: fifty lanes that are behind cost as much as one."""
    monkeypatch.setattr(catch_up_module, "_LOOKED_AT", 100)
    turns: list[int] = []
    take = DueReader.take

    def counted(reader: DueReader, until: tuple[int, int], count: int) -> list[Entry]:
        turns.append(count)
        return take(reader, until, count)

    async with living(SimulatedDisk()) as life:
        await life.delay(b"x", after_ms=500)
        fill(life, 1000, 50)
        monkeypatch.setattr(DueReader, "take", counted)
        catch_up = CatchUp(life.store)
        lanes = [Lane(number, catch_up) for number in range(1, 51)]
        await life.until(lambda: all(lane.is_at_end for lane in lanes))
        for lane in lanes:
            expected = [number for number in range(1, 1001) if 1 + number % 50 == lane.number]
            assert (lane.numbers, lane.seen) == (expected, FRONTIER)
        assert len(turns) <= 20


async def test_lanes_that_stand_apart_have_turns_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And one whose messages are many is told of some at a time."""
    monkeypatch.setattr(catch_up_module, "_LOOKED_AT", 50)
    monkeypatch.setattr(catch_up_module, "_FOUND_MAX", 20)
    monkeypatch.setattr(catch_up_module, "_FOUND_MIN", 5)
    async with living(SimulatedDisk()) as life:
        await life.delay(b"x", after_ms=500)
        fill(life, 1000, 2)
        catch_up = CatchUp(life.store)
        far, near = Lane(1, catch_up), Lane(2, catch_up, Due(950, 950))
        await life.until(lambda: near.is_at_end)
        assert not far.is_at_end, "it holds up nobody"
        await life.until(lambda: far.is_at_end)
        assert far.numbers == list(range(2, 1001, 2))
        assert near.numbers == list(range(951, 1001, 2))


async def test_what_was_forgotten_is_told_nothing_and_what_cannot_be_read_is_told() -> None:
    async with living(SimulatedDisk()) as life:
        await life.delay(b"x", after_ms=500)
        fill(life, 10, 2)
        catch_up = CatchUp(life.store)
        gone, lane = Lane(1, catch_up), Lane(2, catch_up)
        catch_up.forget(gone)

        def damaged(after: tuple[int, int]) -> None:
            raise CorruptLog("It cannot be read.")

        life.store.index.sorted_after = damaged  # type: ignore[method-assign, assignment]
        await life.until(lambda: lane.error is not None)
        assert (gone.error, gone.numbers) == (None, [])
