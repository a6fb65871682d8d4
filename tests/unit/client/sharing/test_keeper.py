"""Leases whose time passes: what waits is given back, what is worked on is kept."""

from __future__ import annotations

import asyncio

from penstock.client.reading.ledger import Coordinates
from penstock.client.sharing.buffer import Hold, LeaseBuffer
from penstock.client.sharing.keeper import LeaseKeeper
from penstock.client.sharing.settler import EXTEND, RELEASE, Kind, Outcome
from penstock.model.ids import TopicPartition
from penstock.records import decode_messages
from tests.kit.broker.running import batch

JOBS = TopicPartition("jobs", 0)


class Bench:
    def __init__(self, *, extends: bool = True) -> None:
        self.buffer = LeaseBuffer(10, {})
        self.held: dict[Coordinates, Hold] = {}
        self.settled: list[tuple[int, Kind]] = []
        self.keeper = LeaseKeeper(self.buffer, self.held, self._settle, extends=extends)

    def _settle(self, partition: tuple[str, int], offset: int, outcome: Outcome) -> None:
        assert partition == JOBS
        self.settled.append((offset, outcome.kind))

    def hold(self, offset: int, hold: Hold) -> None:
        self.held["jobs", 0, offset] = hold

    def look(self) -> list[tuple[int, Kind]]:
        self.settled.clear()
        self.keeper.look()
        return self.settled


def lease(age_s: float) -> Hold:
    """Of ten seconds."""
    return Hold(JOBS, (), asyncio.get_running_loop().time() - age_s, 10.0)


async def test_what_waits_too_long_is_given_back() -> None:
    """R-DEL-3: others may be idle, and no attempt is counted."""
    bench = Bench()
    old, fresh = decode_messages(batch([b"old", b"fresh"]), "jobs", 0, 0)
    bench.buffer.add_leased(lease(4.9), [old])
    bench.buffer.add_leased(lease(1.0), [fresh])
    assert bench.look() == [(0, RELEASE)]
    assert len(bench.buffer) == 1
    assert bench.look() == []


async def test_what_is_worked_on_is_kept() -> None:
    """R-DEL-3: extended before half of the lease is over, again and again, until it is settled."""
    bench = Bench()
    slow = lease(4.9)
    bench.hold(1, slow)
    bench.hold(2, lease(1.0))
    assert bench.look() == [(1, EXTEND)]
    assert bench.look() == []
    # As if another half had passed.
    bench.keeper._extended_at_s["jobs", 0, 1] -= 5.0
    assert bench.look() == [(1, EXTEND)]
    del bench.held["jobs", 0, 1]
    bench.keeper._extended_at_s["jobs", 0, 2] -= 5.0
    assert bench.look() == []
    assert set(bench.keeper._extended_at_s) == {("jobs", 0, 2)}


async def test_who_does_not_want_it_is_not_helped() -> None:
    bench = Bench(extends=False)
    bench.hold(1, lease(8.0))
    assert bench.look() == []


async def test_a_message_that_is_leased_again_begins_anew() -> None:
    bench = Bench()
    bench.hold(1, lease(4.9))
    bench.look()
    bench.keeper._extended_at_s["jobs", 0, 1] -= 100.0
    bench.hold(1, lease(0.0))
    assert bench.look() == []
