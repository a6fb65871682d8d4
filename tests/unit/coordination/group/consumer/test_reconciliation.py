"""One step of one member towards its target, from each of its states."""

from __future__ import annotations

from penstock.coordination.group.assignors.assignment import Assignment, partitions_of
from penstock.coordination.group.consumer.reconciliation import (
    JOINING,
    Current,
    MemberState,
    reconcile,
)
from penstock.model.ids import TopicId

ONE = TopicId("1" * 32)


def at(
    epoch: int,
    state: MemberState,
    *assigned: int,
    revoking: tuple[int, ...] = (),
    previous_epoch: int | None = None,
) -> Current:
    return Current(
        epoch=epoch,
        previous_epoch=epoch if previous_epoch is None else previous_epoch,
        state=state,
        assigned=some(*assigned),
        revoking=some(*revoking),
    )


def some(*partitions: int) -> Assignment:
    return {ONE: partitions} if partitions else {}


def step(
    current: Current,
    *target: int,
    epoch: int = 9,
    owned: Assignment | None = None,
    others: Assignment | None = None,
) -> Current:
    taken = set(partitions_of(others or {}))
    return reconcile(
        current,
        target=some(*target),
        target_epoch=epoch,
        owned=owned,
        is_free=lambda topic, partition: (topic, partition) not in taken,
    )


def test_a_newcomer_gets_what_is_free() -> None:
    assert step(JOINING, 0, 1, others=some(1)) == at(9, MemberState.UNRELEASED, 0, previous_epoch=0)
    assert step(JOINING, 0, 1) == at(9, MemberState.STABLE, 0, 1, previous_epoch=0)
    assert step(JOINING, 0, others=some(0)) == at(9, MemberState.UNRELEASED, previous_epoch=0)


def test_nothing_to_do_is_no_step() -> None:
    stable = at(9, MemberState.STABLE, 0, 1)
    assert step(stable, 0, 1) is stable
    waiting = at(9, MemberState.UNRELEASED, 0, previous_epoch=7)
    assert step(waiting, 0, 1, others=some(1)) is waiting


def test_it_gives_up_before_it_gets() -> None:
    """Even if what it is to get is free."""
    stable = at(5, MemberState.STABLE, 0, 1)
    unrevoked = step(stable, 1, 2)
    assert unrevoked == at(5, MemberState.UNREVOKED, 1, revoking=(0,))
    assert step(unrevoked, 1, 2) is unrevoked
    assert step(unrevoked, 1, 2, owned=some(0, 1)) is unrevoked
    assert step(unrevoked, 1, 2, owned=some(1)) == at(9, MemberState.STABLE, 1, 2, previous_epoch=5)


def test_what_it_says_it_does_not_own_it_need_not_give_up() -> None:
    """As when it joins again, and owns nothing."""
    stable = at(5, MemberState.STABLE, 0, 1)
    assert step(stable, 1, 2, owned=some()) == at(9, MemberState.STABLE, 1, 2, previous_epoch=5)


def test_more_to_give_up_than_it_was_told() -> None:
    unrevoked = at(5, MemberState.UNREVOKED, 1, 2, revoking=(0,))
    again = step(unrevoked, 1, owned=some(1, 2))
    assert again == at(6, MemberState.UNREVOKED, 1, revoking=(2,), previous_epoch=5)
    assert step(again, 1, owned=some(1)) == at(9, MemberState.STABLE, 1, previous_epoch=6)


def test_who_waits_gets_partitions_as_they_become_free() -> None:
    waiting = at(9, MemberState.UNRELEASED, 0)
    assert step(waiting, 0, 1, 2, others=some(2)) == at(9, MemberState.UNRELEASED, 0, 1)
    assert step(waiting, 0, 1, 2) == at(9, MemberState.STABLE, 0, 1, 2)


def test_who_waits_may_have_to_give_up() -> None:
    waiting = at(8, MemberState.UNRELEASED, 0)
    assert step(waiting, 1) == at(8, MemberState.UNREVOKED, revoking=(0,))
