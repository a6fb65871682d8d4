"""The next step from a membership to a target: a table of cases (R-REP-7)."""

from __future__ import annotations

import pytest

from penstock.raft.membership import Membership, Node
from penstock.raft.reconfiguration import Kind, Situation, Step, is_reached, next_step

A, B, C, D, E, F = (Node(broker, 1) for broker in range(1, 7))
B_ANEW = Node(2, 2)
EVERYBODY = {node.broker: node for node in (A, B, C, D, E, F)}


def step(
    target: list[Node],
    voters: set[Node],
    learners: set[Node] | None = None,
    *,
    me: Node = A,
    dead: set[Node] | None = None,
    lagging: set[Node] | None = None,
    anew: Node | None = None,
) -> Step | None:
    """dead: not in the registry, not in sync; lagging: there, and not in sync or caught up."""
    gone = (dead or set()) | (lagging or set())
    alive = {key: node for key, node in EVERYBODY.items() if node not in (dead or set())}
    if anew is not None:
        alive[anew.broker] = anew
    return next_step(
        Situation(
            me=me,
            target=tuple(node.broker for node in target),
            membership=Membership(frozenset(voters), frozenset(learners or ())),
            alive=alive,
            in_sync=frozenset(voters - gone),
            caught_up=frozenset((learners or set()) - gone),
        )
    )


def test_nothing_is_done_where_the_target_is_reached() -> None:
    assert step([A, B, C], {A, B, C}) is None
    assert step([A, B, C], {A, B, C}, dead={C}) is None, "it keeps its copy, and comes back"
    assert step([C, A, B], {A, B, C}) is None, "who is to lead first is no matter of membership"


def test_newcomers_learn_before_anything_else_changes() -> None:
    assert step([A, B, D], {A, B, C}) == (Kind.ADD, D)
    assert step([D, E, F], {A, B, C}, {D}) == (Kind.ADD, E)


def test_nobody_votes_before_all_newcomers_have_everything() -> None:
    """So that until then the old membership is what it was, if the move is called off."""
    assert step([D, E, F], {A, B, C}, {D, E, F}, lagging={F}) is None
    assert step([D, E, F], {A, B, C}, {D, E, F}) == (Kind.PROMOTE, D)
    assert step([D, E, F], {A, B, C}, {D, E, F}, dead={F}) == (Kind.PROMOTE, D), "not for the dead"
    assert step([D, E, F], {A, B, C, D, E}, {F}) == (Kind.PROMOTE, F)


def test_who_is_to_go_goes_one_by_one_and_the_leader_last() -> None:
    assert step([D, E, F], {A, B, C, D, E, F}) == (Kind.REMOVE, B)
    assert step([D, E, F], {A, B, C, D, E, F}, lagging={C}) == (Kind.REMOVE, C), "the idle first"
    assert step([D, E, F], {A, D, E, F}) == (Kind.HAND_OVER, D)
    assert step([D, E, F], {A, D, E, F}, lagging={D}) is None
    assert step([D, E, F], {A, D, E, F}, me=E) == (Kind.REMOVE, A)


def test_a_copy_that_is_needed_is_not_let_go() -> None:
    """B has everything and D has not: a failure of A would leave the messages with nobody."""
    assert step([A, D], {A, B, D}, lagging={D}) is None
    assert step([A, D], {A, B, D}) == (Kind.REMOVE, B)
    assert step([A, C], {A, B, C}, dead={C}) is None, "A alone is no majority of A and C"


def test_fewer_voters_than_the_target_names_are_never_left() -> None:
    assert step([A, B, D], {A, B, C}, dead={D}) is None
    assert step([A, B], {A, B, C}) == (Kind.REMOVE, C)


def test_a_dead_one_is_replaced() -> None:
    assert step([A, B, D], {A, B, C}, dead={C}) == (Kind.ADD, D)
    assert step([A, B, D], {A, B, C}, {D}, dead={C}) == (Kind.PROMOTE, D)
    assert step([A, B, D], {A, B, C, D}, dead={C}) == (Kind.REMOVE, C)


def test_a_broker_with_another_folder_is_another_node() -> None:
    """Its folder was wiped: the old node will never answer again."""
    three = [A, B, C]
    assert step(three, {A, B, C}, lagging={B}, anew=B_ANEW) == (Kind.ADD, B_ANEW)
    assert step(three, {A, B, C}, {B_ANEW}, lagging={B}, anew=B_ANEW) == (Kind.PROMOTE, B_ANEW)
    assert step(three, {A, B, C, B_ANEW}, lagging={B}, anew=B_ANEW) == (Kind.REMOVE, B)
    assert step(three, {A, C, B_ANEW}, anew=B_ANEW) is None


def test_learners_nobody_wants_are_let_go() -> None:
    assert step([A, B, C], {A, B, C}, {D}) == (Kind.REMOVE, D), "the move was called off"
    assert step([A, B, C], {A, C}, {B}, anew=B_ANEW) == (Kind.REMOVE, B), "wiped while it learned"


@pytest.mark.parametrize(
    ("voters", "learners", "expected"),
    [
        ({A, B}, set(), True),
        ({A, C}, set(), False),
        ({A, B, C}, set(), False),
        ({A, B}, {C}, False),
    ],
)
def test_whether_a_target_is_reached(
    voters: set[Node], learners: set[Node], expected: bool
) -> None:
    membership = Membership(frozenset(voters), frozenset(learners))
    assert is_reached((1, 2), membership, EVERYBODY) == expected


def test_a_target_is_not_reached_by_a_folder_that_is_lost() -> None:
    membership = Membership(frozenset({A, B}))
    assert not is_reached((1, 2), membership, {1: A, 2: B_ANEW})
    assert is_reached((1, 2), membership, {1: A}), "of one that is not there, nobody knows better"
