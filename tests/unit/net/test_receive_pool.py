"""The budget for large frames: bounded, and never in a deadlock."""

from __future__ import annotations

from penstock.net.receive_pool import ReceivePool


class Holder:
    """Somebody who counts how often there was room."""

    def __init__(self) -> None:
        self.woken = 0

    def on_room(self) -> None:
        self.woken += 1


def test_room_is_given_until_the_budget_is_spent() -> None:
    """R-NET-4: memory for receiving is bounded."""
    pool = ReceivePool(bytes_max=100)
    first, second, third = Holder(), Holder(), Holder()
    assert pool.reserve(first, 60)
    assert pool.reserve(second, 60), "one may always go on, beyond the budget"
    assert not pool.reserve(third, 1)
    assert not pool.reserve(first, 10)
    assert pool.reserve(second, 10), "the one that may go on, may go on to its end"
    assert pool.reserved_bytes == 130


def test_who_waits_longest_is_woken_first_and_wakes_the_next() -> None:
    pool = ReceivePool(bytes_max=100)
    holders = [Holder() for _ in range(4)]
    assert pool.reserve(holders[0], 100)
    assert pool.reserve(holders[1], 10)
    assert not pool.reserve(holders[2], 10)
    assert not pool.reserve(holders[3], 10)
    pool.release(holders[0], 100)
    assert [holder.woken for holder in holders] == [0, 0, 1, 0]
    assert pool.reserve(holders[2], 10)
    assert [holder.woken for holder in holders] == [0, 0, 1, 1]


def test_when_the_one_beyond_the_budget_ends_another_may_go_beyond() -> None:
    pool = ReceivePool(bytes_max=100)
    full, beyond, waiting = Holder(), Holder(), Holder()
    assert pool.reserve(full, 100)
    assert pool.reserve(beyond, 10)
    assert not pool.reserve(waiting, 10)
    pool.release(beyond, 10)
    assert waiting.woken == 1
    assert pool.reserve(waiting, 10)


def test_who_gives_up_is_not_woken() -> None:
    pool = ReceivePool(bytes_max=100)
    full, beyond, waiting, other = Holder(), Holder(), Holder(), Holder()
    assert pool.reserve(full, 100)
    assert pool.reserve(beyond, 10)
    assert not pool.reserve(waiting, 10)
    assert not pool.reserve(other, 10)
    pool.release(waiting, 0)
    pool.release(full, 100)
    assert (waiting.woken, other.woken) == (0, 1)


def test_the_pool_is_scarce_when_half_is_taken() -> None:
    pool = ReceivePool(bytes_max=100)
    holder = Holder()
    assert pool.reserve(holder, 50)
    assert not pool.is_scarce
    assert pool.reserve(holder, 1)
    assert pool.is_scarce
