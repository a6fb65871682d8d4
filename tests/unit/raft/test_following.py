"""A follower: where logs agree, what it cuts, what it acknowledges, when it begins anew."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptLog
from penstock.raft.following import AppendPlan
from penstock.raft.membership import Node
from penstock.raft.messages import AppendAnswer, AppendRequest, ResetRequest
from tests.kit.raft.node import B, C, OneNode, batch, history, of


def follower(*ends: tuple[int, int], term: int = 5) -> OneNode:
    return OneNode(*ends, term=term)


def plan(node: OneNode, previous: tuple[int, int], *ends: tuple[int, int]) -> AppendPlan | None:
    """Of a request with batches of (term, end offset). previous: the term, the offset after it."""
    base_offset = previous[1]
    batches = []
    for term, end_offset in ends:
        batches.append(batch(base_offset, end_offset, term))
        base_offset = end_offset
    request = AppendRequest(
        term=node.state.term,
        previous_term=previous[0],
        previous_offset=previous[1],
        commit_offset=0,
        batches=tuple(batches),
    )
    return node.raft.plan_append(B, request, node.now_ms)


def answers(node: OneNode) -> list[tuple[bool, int, int, int]]:
    return [
        (answer.is_matching, answer.end_offset, answer.last_term, answer.asked_offset)
        for to, answer in node.sent(AppendAnswer)
        if to == B
    ]


def matching(*offsets: int) -> list[tuple[bool, int, int, int]]:
    return [(True, offset, 0, -1) for offset in offsets]


# --- log matching --------------------------------------------------------------------------------


def test_what_follows_a_common_position_is_written() -> None:
    """Paper, 5.3."""
    node = follower((1, 10), (4, 20))
    found = plan(node, (4, 20), (4, 22), (5, 23))
    assert found is not None
    assert (found.truncate_to, found.first, len(found.batches)) == (None, 0, 2)


def test_what_is_here_is_skipped() -> None:
    node = follower((1, 10), (4, 20))
    found = plan(node, (1, 10), (4, 20), (5, 23))
    assert found == AppendPlan(truncate_to=None, first=1, batches=(batch(20, 23, 5),))


def test_a_request_that_came_twice_or_late_cuts_nothing() -> None:
    """Paper, 5.3: only an entry that conflicts is deleted, and all that follow it."""
    node = follower((1, 10), (4, 20), (5, 30))
    found = plan(node, (1, 10), (4, 20))
    assert found == AppendPlan(truncate_to=None, first=1, batches=())


def test_what_conflicts_is_cut_with_all_that_follows() -> None:
    """Paper, 5.3, figure 7."""
    node = follower((1, 10), (2, 20), (3, 30))
    found = plan(node, (1, 10), (4, 15), (5, 16))
    assert found is not None
    assert (found.truncate_to, found.first, len(found.batches)) == (10, 0, 2)


def test_a_batch_is_indivisible() -> None:
    """The log ends within what is a batch of the leader: it is another one."""
    node = follower((1, 10), (2, 15))
    found = plan(node, (1, 10), (4, 20))
    assert found is not None
    assert found.truncate_to == 10


@pytest.mark.parametrize(
    ("ends", "asked", "expected"),
    [
        (((1, 10),), (4, 50), (10, 1)),
        (((1, 10), (3, 30), (5, 60)), (4, 50), (30, 3)),
        (((1, 10), (3, 60)), (4, 50), (50, 3)),
        (((5, 60),), (4, 50), (0, 0)),
        ((), (4, 50), (0, 0)),
    ],
    ids=["too short", "a later term there", "an earlier term there", "only later terms", "empty"],
)
def test_where_to_look_next(
    ends: tuple[tuple[int, int], ...], asked: tuple[int, int], expected: tuple[int, int]
) -> None:
    """Paper, 5.3, as KRaft does it: the end of the largest term up to the one asked for."""
    node = follower(*ends)
    assert plan(node, asked) is None
    assert answers(node) == [(False, expected[0], expected[1], 50)]


def test_what_came_before_the_start_agrees() -> None:
    node = OneNode(term=5, terms=history((4, 120), start_offset=100, start_term=3))
    assert plan(node, (2, 40), (2, 50)) is None
    assert answers(node) == matching(100)


# --- acknowledging -------------------------------------------------------------------------------


def test_only_what_is_durable_is_acknowledged() -> None:
    node = follower((1, 10))
    node.append(B, 5, (1, 10), batch(10, 20, 5), is_durable=False)
    assert answers(node) == []
    node.raft.durable(20, node.now_ms)
    assert answers(node) == matching(20)


def test_no_more_is_acknowledged_than_a_flush_was_for() -> None:
    node = follower((1, 10))
    node.append(B, 5, (1, 10), batch(10, 15, 5), batch(15, 20, 5), is_durable=False)
    node.raft.durable(15, node.now_ms)
    assert answers(node) == matching(15)


def test_a_tail_of_another_leader_is_not_acknowledged() -> None:
    """It is durable here, but it is not the leader's."""
    node = follower((1, 10), (2, 30))
    node.append(B, 5, (1, 10))
    assert answers(node)[-1:] == matching(10)
    node.raft.durable(30, node.now_ms)
    assert answers(node) == matching(10)


def test_a_new_leader_is_told_nothing_of_what_the_old_one_saw() -> None:
    node = follower((1, 10))
    node.append(B, 5, (1, 10), batch(10, 20, 5))
    node.append(C, 6, (1, 10))
    assert [answer.end_offset for _, answer in node.sent(AppendAnswer)][-1] == 10


def test_what_was_written_for_one_leader_is_not_the_next_ones() -> None:
    """Writing takes a while; meanwhile another may have been elected."""
    node = follower((1, 10))
    request = AppendRequest(
        term=5,
        previous_term=1,
        previous_offset=10,
        commit_offset=0,
        batches=(batch(10, 20, 5),),
    )
    found = node.raft.plan_append(B, request, node.now_ms)
    assert found is not None
    node.raft.written(found.batches, node.now_ms)
    node.raft.follow_commit(C, 6, 20, node.now_ms)
    node.raft.matched(request)
    node.raft.durable(20, node.now_ms)
    node.raft.follow_commit(C, 6, 20, node.now_ms)
    assert node.state.commit_offset == 0
    assert all(answer.end_offset == 0 for _, answer in node.sent(AppendAnswer))


# --- committing ----------------------------------------------------------------------------------


def test_commit_follows_the_leader_as_far_as_the_logs_are_known_to_agree() -> None:
    """Paper, 5.3: the smaller of the leader's and the last new entry's."""
    node = follower((1, 10), (2, 30))
    node.append(B, 5, (1, 10), commit_offset=30)
    assert node.state.commit_offset == 10
    node.raft.follow_commit(B, 5, 30, node.now_ms)
    assert node.state.commit_offset == 10
    node.append(B, 5, (1, 10), batch(10, 20, 5), commit_offset=15)
    assert node.state.commit_offset == 15


def test_a_heartbeat_commits_nothing_that_was_not_seen_to_agree() -> None:
    node = follower((1, 10))
    node.raft.follow_commit(B, 5, 10, node.now_ms)
    assert node.state.commit_offset == 0
    assert node.sent(AppendAnswer) == []


def test_nothing_committed_is_cut_whatever_a_leader_says() -> None:
    node = follower((1, 10), (2, 20))
    node.append(B, 5, (2, 20), commit_offset=20)
    for previous, ends in (
        ((3, 20), ()),
        ((1, 15), ()),
        ((1, 10), ((5, 15),)),
        ((0, 0), ((5, 5),)),
    ):
        with pytest.raises(CorruptLog, match="has another record at offset"):
            plan(node, previous, *ends)
    assert node.state.terms.end_offset == 20


def test_nothing_is_cut_that_the_same_leader_has_confirmed() -> None:
    node = follower((1, 10), (2, 20))
    node.append(B, 5, (2, 20))
    with pytest.raises(CorruptLog):
        plan(node, (1, 10), (5, 20))


# --- beginning anew ------------------------------------------------------------------------------


def reset(node: OneNode, start_offset: int, start_term: int, leader: Node = B) -> bool:
    request = ResetRequest(
        term=5, start_offset=start_offset, start_term=start_term, membership=of(B, C)
    )
    return node.raft.on_reset_request(leader, request, node.now_ms)


def test_a_log_that_ends_before_the_leaders_start_begins_anew() -> None:
    node = follower((1, 10))
    assert reset(node, 100, 4)
    state = node.state
    assert (state.terms.start_offset, state.terms.end_offset, state.terms.last_term) == (
        100,
        100,
        4,
    )
    assert (state.commit_offset, state.membership, state.is_unsaved) == (100, of(B, C), True)
    assert answers(node) == matching(100)
    node.append(B, 5, (4, 100), batch(100, 110, 5))
    assert answers(node)[-1:] == matching(110)


def test_a_log_that_has_the_leaders_start_is_kept() -> None:
    """After a restart nobody knows what was committed. A majority may count on this copy."""
    node = follower((1, 10), (4, 200))
    assert not reset(node, 100, 4)
    assert (node.state.terms.start_offset, node.state.terms.end_offset) == (0, 200)
    assert node.state.commit_offset == 100
    assert answers(node) == matching(100)


def test_a_log_that_has_something_else_at_the_leaders_start_begins_anew() -> None:
    node = follower((1, 10), (3, 200))
    assert reset(node, 100, 4)
    assert node.state.terms.end_offset == 100


def test_a_reset_that_comes_late_or_twice_changes_nothing() -> None:
    node = follower((1, 10))
    assert reset(node, 100, 4)
    node.append(B, 5, (4, 100), batch(100, 110, 5), commit_offset=110)
    node.state.outbox.clear()
    assert not reset(node, 100, 4)
    assert not reset(node, 50, 2)
    assert node.state.terms.end_offset == 110
    assert answers(node) == matching(110, 110)
