"""A partition gets to its target in single steps, whatever is lost on the way."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.raft.membership import Membership, Node
from tests.kit.simulation.clusters.operators import described, next_step

A, B, C, D = (Node(broker, 1) for broker in range(1, 5))
NEW_C = Node(3, 2)


def walk(
    now: Membership, target: Collection[Node], me: Node = A, lost: Collection[Node] = ()
) -> list[Membership | Node]:
    """All steps, everybody being caught up at once; it ends when a transfer is asked for."""
    steps: list[Membership | Node] = []
    for _ in range(20):
        step = next_step(
            now,
            frozenset(target),
            me=me,
            is_lost=lambda node: node in lost,
            is_caught_up=lambda node: True,
        )
        if step is None:
            return steps
        steps.append(step)
        if isinstance(step, Node):
            return steps
        assert now.is_step_to(step)
        now = step
    raise AssertionError(f"it does not end: {steps}")


def test_a_copy_moves_by_learning_voting_and_leaving() -> None:
    """R-REP-7."""
    steps = walk(Membership(frozenset({A, B, C})), {A, B, D})
    assert steps == [
        Membership(frozenset({A, B, C}), frozenset({D})),
        Membership(frozenset({A, B, C, D})),
        Membership(frozenset({A, B, D})),
    ]


def test_who_is_lost_goes_before_its_successor_votes() -> None:
    steps = walk(Membership(frozenset({A, B, C})), {A, B, NEW_C}, lost={C})
    assert steps == [
        Membership(frozenset({A, B, C}), frozenset({NEW_C})),
        Membership(frozenset({A, B}), frozenset({NEW_C})),
        Membership(frozenset({A, B, NEW_C})),
    ]


def test_who_is_lost_goes_before_others_do() -> None:
    assert walk(Membership(frozenset({A, B, C})), {B}, me=B, lost={C}) == [
        Membership(frozenset({A, B})),
        Membership(frozenset({B})),
    ]


def test_a_leader_that_is_to_go_hands_over() -> None:
    assert walk(Membership(frozenset({A, B})), {B}, me=A) == [B]


def test_a_learner_that_is_behind_is_waited_for() -> None:
    now = Membership(frozenset({A, B}), frozenset({C}))
    step = next_step(
        now,
        frozenset({A, C}),
        me=A,
        is_lost=lambda node: False,
        is_caught_up=lambda node: False,
    )
    assert step is None


@pytest.mark.parametrize("learners", [frozenset({D}), frozenset({C, D})])
def test_a_learner_nobody_asked_for_is_let_go(learners: frozenset[Node]) -> None:
    steps = walk(Membership(frozenset({A, B}), learners), {A, B})
    assert steps[-1] == Membership(frozenset({A, B}))


def test_a_membership_in_words() -> None:
    assert (
        described(Membership(frozenset({B, A}), frozenset({C}))) == "voters 1/1, 2/1, learners 3/1"
    )
