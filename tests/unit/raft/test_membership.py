"""Memberships: majorities, single steps, and what comes back when a log is cut."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from penstock.raft.membership import Membership, MembershipAt, MembershipHistory, Node

A, B, C, D, E = (Node(broker, 1) for broker in range(1, 6))


def of(*voters: Node) -> Membership:
    return Membership(frozenset(voters))


@pytest.mark.parametrize(("voters", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_majority(voters: int, majority: int) -> None:
    assert of(*(A, B, C, D, E)[:voters]).majority == majority


def test_one_voter_comes_or_goes() -> None:
    """Dissertation, 4.1."""
    three = of(A, B, C)
    assert three.is_step_to(three)
    assert three.is_step_to(of(A, B))
    assert three.is_step_to(of(A, B, C, D))
    assert not three.is_step_to(of(A))
    assert not three.is_step_to(of(A, B, D))
    assert not of(A).is_step_to(of())
    assert not of(A).is_step_to(of(B))


def test_learners_come_and_go_freely() -> None:
    learners = Membership(frozenset({A}), frozenset({B, C, D}))
    assert of(A).is_step_to(learners)
    assert learners.is_step_to(of(A, B))
    assert learners.nodes == {A, B, C, D}
    assert not of(A).is_step_to(Membership(frozenset({A}), frozenset({A})))


def test_majorities_of_a_step_have_a_node_in_common() -> None:
    """Dissertation, 4.1, figure 4.3: what makes single steps safe."""
    nodes = (A, B, C, D)
    sets = [of(*some) for size in range(1, 5) for some in combinations(nodes, size)]
    steps = [(one, other) for one in sets for other in sets if one.is_step_to(other)]
    assert steps
    for one, other in steps:
        for some in combinations(one.voters, one.majority):
            for others in combinations(other.voters, other.majority):
                assert set(some) & set(others)


def test_a_directory_is_another_node() -> None:
    assert Node(1, 1) != Node(1, 2)
    assert str(Node(1, 255)) == "1/ff"


def memberships() -> MembershipHistory:
    places = [MembershipAt(-1, 0, of(A)), MembershipAt(10, 1, of(A, B)), MembershipAt(20, 2, of(A))]
    return MembershipHistory(tuple(places), 30)


def test_the_latest_holds_from_where_it_is_written() -> None:
    history = memberships()
    history.add(MembershipAt(30, 2, of(A, C)))
    assert history.latest.membership == of(A, C)


@pytest.mark.parametrize(("cut", "offset"), [(21, 20), (20, 10), (11, 10), (10, -1), (0, -1)])
def test_a_cut_brings_the_one_before_back(cut: int, offset: int) -> None:
    """Dissertation, 4.1: a server uses the latest of its log, committed or not."""
    history = memberships()
    history.truncate(cut)
    assert history.latest.offset == offset


def test_of_what_is_settled_the_latest_is_enough() -> None:
    history = memberships()
    history.settle(10)
    assert [at.offset for at in history.known] == [-1, 10, 20]
    history.settle(11)
    assert [at.offset for at in history.known] == [10, 20]
    history.settle(99)
    assert [at.offset for at in history.known] == [20]
    history.truncate(20)
    assert history.latest.offset == 20


def test_what_the_log_lost_is_left_out() -> None:
    places = tuple(chain(memberships().known, [MembershipAt(30, 2, of(A, C))]))
    assert MembershipHistory(places, 30).latest.offset == 20
    assert MembershipHistory(places, 31).latest.offset == 30
