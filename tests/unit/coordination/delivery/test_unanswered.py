"""Leases that did not reach their member: returned as if they had not been, and nothing else is."""

from __future__ import annotations

from penstock.coordination.delivery.shared_partition import SharePartition
from penstock.coordination.delivery.shared_settings import Lease, Settlement, ShareSettings
from penstock.coordination.delivery.unanswered import give_back, held_until_ms

NOW_MS = 1_000_000
LEASE_MS = 10_000


def leased_to_a() -> SharePartition:
    """Ten messages, the first six leased to a."""
    settings = ShareSettings(
        lease_ms=LEASE_MS, attempts_max=5, backoff_ms=0, backoff_ms_max=0, is_ordered_by_key=False
    )
    machine = SharePartition.fresh(0, settings)
    machine.offer(0, 10, NOW_MS)
    machine.lease("a", 6, NOW_MS)
    machine.durable(machine.snapshot())
    assert machine.lease("a", 6, NOW_MS) == [Lease(0, 5, 1)]
    return machine


def test_what_is_held_is_given_back_without_an_attempt() -> None:
    """R-DEL-3: others get it at once."""
    machine = leased_to_a()
    give_back(machine, "a", 2, 4, NOW_MS)
    machine.check()
    assert machine.counts().leased == 3
    assert machine.lease("b", 3, NOW_MS) == [Lease(2, 4, 1)]


def test_what_was_settled_or_is_anothers_is_left_alone() -> None:
    machine = leased_to_a()
    machine.settle("a", 1, 1, Settlement.ACKNOWLEDGE, NOW_MS)
    machine.settle("a", 2, 2, Settlement.RELEASE, NOW_MS)
    assert machine.lease("b", 1, NOW_MS) == [Lease(2, 2, 1)]
    give_back(machine, "a", 0, 1_000, NOW_MS)
    machine.check()
    assert machine.counts().leased == 1
    assert held_until_ms(machine, "b", 2, 2) == NOW_MS + LEASE_MS
    give_back(machine, "nobody", 0, 1_000, NOW_MS)
    assert machine.counts().leased == 1


def test_whether_all_of_it_is_held() -> None:
    machine = leased_to_a()
    assert held_until_ms(machine, "a", 0, 5) == NOW_MS + LEASE_MS
    assert held_until_ms(machine, "b", 0, 5) is None
    assert held_until_ms(machine, "a", 0, 6) is None
    assert held_until_ms(machine, "a", 100, 200) is None
    machine.settle("a", 5, 5, Settlement.EXTEND, NOW_MS + 10)
    assert held_until_ms(machine, "a", 0, 5) == NOW_MS + LEASE_MS
    machine.settle("a", 3, 3, Settlement.ACKNOWLEDGE, NOW_MS)
    assert held_until_ms(machine, "a", 0, 5) is None


def test_an_expired_lease_counts_as_an_attempt_though_it_is_given_back_later() -> None:
    machine = leased_to_a()
    give_back(machine, "a", 0, 5, NOW_MS + LEASE_MS)
    assert machine.lease("b", 6, NOW_MS + LEASE_MS) == [Lease(0, 5, 2)]
