"""Who waits on a connection is forgotten, answered in time, or told of its end: once."""

from __future__ import annotations

import asyncio

from penstock.broker.clients.waiters import Waiters
from tests.kit.simulation.loop import VirtualLoop


class Poll:
    """One long poll, and what became of it."""

    def __init__(self, waiters: Waiters, wait_s: float) -> None:
        self.told: list[str] = []
        self.waiters = waiters
        self.wait_again(wait_s)

    def wait_again(self, wait_s: float) -> None:
        self.waiters.wait(
            self, lambda: self.told.append("gone"), wait_s, lambda: self.told.append("time up")
        )


def test_a_long_poll_ends_in_one_way() -> None:
    """R-DEL-6."""
    loop, waiters = VirtualLoop(), Waiters()

    async def live() -> None:
        late, forgotten, moved, left = (Poll(waiters, wait_s) for wait_s in (1.0, 1.0, 1.0, 9.0))
        waiters.forget(forgotten)
        moved.wait_again(3.0)
        assert waiters.waiting_count == 3
        await asyncio.sleep(2)
        assert (late.told, moved.told) == (["time up"], [])
        waiters.forget(late)
        await asyncio.sleep(2)
        assert moved.told == ["time up"]
        waiters.forget(moved)
        waiters.end_waiting()
        await asyncio.sleep(20)
        assert left.told == ["gone"], "and its time is up no more"
        assert forgotten.told == []
        assert waiters.waiting_count == 0

    try:
        loop.run_until_complete(live())
    finally:
        loop.close()


def test_a_long_poll_that_waits_for_the_end_alone_from_now_on_is_told_of_no_time() -> None:
    loop, waiters = VirtualLoop(), Waiters()

    async def live() -> None:
        poll = Poll(waiters, 1.0)
        waiters.on_close(poll, lambda: poll.told.append("ended"))
        await asyncio.sleep(2)
        assert poll.told == []
        waiters.end_waiting()
        assert poll.told == ["ended"]

    try:
        loop.run_until_complete(live())
    finally:
        loop.close()


def test_who_waits_for_the_end_alone_has_no_time() -> None:
    waiters, told = Waiters(), list[str]()
    waiters.on_close("one", lambda: told.append("one"))
    waiters.on_close("two", lambda: told.append("two"))
    waiters.forget("one")
    waiters.forget("nobody")
    waiters.end_waiting()
    waiters.end_waiting()
    assert told == ["two"]
