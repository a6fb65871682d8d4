"""The ring: the same order everywhere, and brokers come and go without disturbing the others."""

from __future__ import annotations

from collections import Counter

from penstock.registry.ring import Ring
from tests.kit.registry.facts import ids

KEYS = [f"orders-{number}" for number in range(300)]


def test_every_broker_is_in_the_order_once() -> None:
    ring = Ring(ids(1, 2, 3, 4, 5))
    assert all(sorted(ring.order(key)) == [1, 2, 3, 4, 5] for key in KEYS)


def test_the_order_is_the_same_for_everybody() -> None:
    """A golden one: another order would move replicas when brokers of two versions plan."""
    assert Ring(ids(3, 1, 2, 2)).order("orders-0") == Ring(ids(1, 2, 3)).order("orders-0")
    assert [Ring(ids(1, 2, 3)).order(key) for key in KEYS[:4]] == GOLDEN


GOLDEN = [(3, 1, 2), (2, 3, 1), (1, 3, 2), (2, 3, 1)]


def test_a_broker_that_joins_only_steps_in_between() -> None:
    small, large = Ring(ids(1, 2, 3)), Ring(ids(1, 2, 3, 4))
    for key in KEYS:
        assert tuple(each for each in large.order(key) if each != 4) == small.order(key)


def test_each_is_first_about_equally_often() -> None:
    first = Counter(Ring(ids(1, 2, 3)).order(key)[0] for key in KEYS)
    assert all(50 <= first[each] <= 150 for each in ids(1, 2, 3)), first


def test_without_brokers_there_is_no_order() -> None:
    assert Ring(()).order("orders-0") == ()
