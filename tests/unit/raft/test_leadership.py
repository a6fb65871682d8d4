"""A leader: what is committed, what is sent, where logs are searched, who may be a member."""

from __future__ import annotations

import pytest

from penstock.model.errors import CorruptLog
from penstock.model.limits import APPEND_REQUESTS_ON_THE_WAY_MAX
from penstock.raft.leadership import Sending
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import CampaignRequest, ResetRequest
from tests.kit.raft.node import THREE, TIMING, A, B, C, D, E, OneNode, history, of

FIVE = of(A, B, C, D, E)


def leader(*ends: tuple[int, int], membership: Membership = THREE, term: int = 4) -> OneNode:
    """Of the next term, after a record of it."""
    node = OneNode(*ends, membership=membership, term=term)
    node.elect(*membership.voters - {A})
    return node


# --- committing ----------------------------------------------------------------------------------


def test_what_a_majority_has_is_committed() -> None:
    """Paper, 5.3."""
    node = leader(membership=FIVE)
    end = node.propose(10)
    node.acknowledge(B, end)
    assert node.state.commit_offset == 0
    node.acknowledge(C, end - 5)
    assert node.state.commit_offset == end - 5
    node.acknowledge(C, end)
    assert node.state.commit_offset == end


def test_a_record_of_an_older_term_is_not_committed_by_counting() -> None:
    """Paper, 5.4.2, figure 8: on a majority, and still it may be overwritten."""
    node = OneNode((1, 1), (2, 2), membership=FIVE, term=3)
    node.elect(B, C, noop=False)
    node.acknowledge(B, 2)
    node.acknowledge(C, 2)
    assert node.state.commit_offset == 0
    # With a record of its own term, all before it are committed too.
    node.propose()
    node.acknowledge(B, 3)
    node.acknowledge(C, 3)
    assert node.state.commit_offset == 3


def test_its_own_copy_counts_when_it_is_durable() -> None:
    node = leader()
    base_offset = node.state.terms.end_offset
    node.raft.extended(base_offset + 10)
    node.acknowledge(B, base_offset + 10)
    assert node.state.commit_offset == base_offset
    node.raft.durable(base_offset + 10, node.now_ms)
    assert node.state.commit_offset == base_offset + 10


def test_others_copies_may_be_enough() -> None:
    """Dissertation, 10.2.1: a leader may be slower than its followers."""
    node = leader()
    node.raft.extended(50)
    node.acknowledge(B, 50)
    node.acknowledge(C, 50)
    assert node.state.commit_offset == 50


def test_learners_are_sent_the_log_and_never_counted() -> None:
    node = leader(membership=of(A, B, C, learners=(D, E)))
    end = node.propose()
    node.acknowledge(D, end)
    node.acknowledge(E, end)
    assert node.state.commit_offset == 0
    assert {sending.node for sending in node.sendings()} >= {B, C}
    assert node.leading.followers[D].match_offset == end
    assert node.leading.replicated_offset(2) == 0


def test_a_stranger_is_not_counted() -> None:
    node = leader()
    end = node.propose()
    node.acknowledge(E, end)
    assert node.state.commit_offset == 0


def test_an_answer_beyond_the_log_is_refused() -> None:
    node = leader((1, 10))
    with pytest.raises(CorruptLog, match="says it has everything before 99 of a log that ends at"):
        node.acknowledge(B, 99)
    assert node.state.commit_offset == 0


def test_an_answer_that_is_late_or_came_twice_changes_nothing() -> None:
    node = leader()
    end = node.propose(10)
    node.acknowledge(B, end)
    for late in (3, end, -5):
        node.acknowledge(B, late)
    assert node.state.commit_offset == end
    assert node.leading.followers[B].match_offset == end


# --- sending -------------------------------------------------------------------------------------


def test_a_new_leader_asks_where_its_own_log_ends() -> None:
    """Paper, 5.3: nextIndex begins after its last record."""
    node = OneNode((1, 10), (3, 20), term=4)
    node.elect(B, C, noop=False)
    assert node.sendings() == [Sending(B, 20, 3, 20), Sending(C, 20, 3, 20)]
    assert node.sendings() == []


def test_after_the_search_requests_follow_each_other() -> None:
    node = leader()
    node.sendings()
    node.acknowledge(B, 1)
    for _ in range(APPEND_REQUESTS_ON_THE_WAY_MAX + 3):
        node.propose()
        node.sendings()
    window = node.leading.followers[B]
    assert window.next_offset == 1 + APPEND_REQUESTS_ON_THE_WAY_MAX
    node.acknowledge(B, 3)
    assert [sending.node for sending in node.sendings()] == [B]


def test_a_request_without_an_answer_is_sent_again() -> None:
    node = leader((1, 10))
    node.sendings()
    node.acknowledge(B, 11)
    end = node.propose()
    node.sendings()
    node.now_ms += TIMING.retry_ms - 1
    assert node.sendings() == []
    node.now_ms += 1
    assert node.sendings() == [Sending(B, 11, 5, end), Sending(C, 10, 1, end)]


def test_a_lone_voters_learners_get_what_is_durable() -> None:
    node = OneNode(membership=of(A, learners=(B,)))
    node.time_out()
    node.propose(10)
    node.raft.extended(20)
    assert node.leading.sendings(node.now_ms) == [Sending(B, 0, 0, 10)]


# --- where logs agree ----------------------------------------------------------------------------


def asked(node: OneNode, follower: Node = B) -> tuple[int, int]:
    """The position that the follower is asked for now."""
    (sending,) = (sending for sending in node.sendings() if sending.node == follower)
    return sending.previous_term, sending.previous_offset


def test_a_term_is_skipped_with_each_question() -> None:
    """Paper, 5.3, figure 7 (f): terms 2 and 3 at the follower, which nobody else has."""
    node = OneNode((1, 30), (4, 50), (5, 60), (6, 100), term=7)
    node.elect(B, C, noop=False)
    assert asked(node) == (6, 100)
    node.diverge(B, 100, (3, 110))
    assert asked(node) == (1, 30)
    node.acknowledge(B, 30)
    assert asked(node) == (1, 30)


def test_the_same_term_ends_where_it_ends_first() -> None:
    node = OneNode((1, 30), (4, 50), (6, 100), term=7)
    node.elect(B, C, noop=False)
    assert asked(node) == (6, 100)
    node.diverge(B, 100, (4, 40))
    assert asked(node) == (4, 40)


def test_a_question_is_never_within_a_batch() -> None:
    """The follower's term 3 ends at 15; here 15 is within a batch of term 2, from 10 to 30."""
    node = OneNode((1, 10), (2, 30), (4, 40), term=4)
    node.elect(B, C, noop=False)
    assert asked(node) == (4, 40)
    node.diverge(B, 40, (3, 15))
    assert asked(node) == (2, 30)
    node.diverge(B, 30, (1, 10))
    assert asked(node) == (1, 10)


def test_an_answer_to_an_older_question_is_ignored() -> None:
    node = OneNode((1, 30), (4, 50), term=4)
    node.elect(B, C, noop=False)
    assert asked(node) == (4, 50)
    node.diverge(B, 50, (1, 20))
    assert asked(node) == (1, 20)
    node.diverge(B, 50, (1, 5))
    node.diverge(B, 7, (1, 5))
    node.diverge(B, -1, (0, 0))
    assert node.leading.followers[B].next_offset == 20


def test_a_follower_that_lost_its_end_in_a_crash_is_found_again() -> None:
    node = leader((1, 10))
    node.sendings()
    node.acknowledge(B, 11)
    node.propose(5)
    node.sendings()
    node.diverge(B, 16, (5, 11))
    assert asked(node) == (5, 11)


def old_leader() -> OneNode:
    """One that has dropped everything before 100."""
    terms = history((3, 120), start_offset=100, start_term=2)
    node = OneNode(terms=terms, term=3)
    node.elect(B, C, noop=False)
    return node


def test_a_follower_that_ends_before_the_start_begins_anew() -> None:
    node = old_leader()
    assert asked(node) == (3, 120)
    node.diverge(B, 120, (1, 50))
    assert asked(node) == (2, 100)
    node.diverge(B, 100, (1, 50))
    request = ResetRequest(term=4, start_offset=100, start_term=2, membership=THREE)
    assert node.sent(ResetRequest) == [(B, request)]
    assert [sending.node for sending in node.sendings()] == []
    node.acknowledge(B, 100)
    assert asked(node) == (2, 100)


def test_a_reset_without_an_answer_is_sent_again() -> None:
    node = old_leader()
    node.sendings()
    node.diverge(B, 120, (2, 50))
    node.sendings()
    assert len(node.sent(ResetRequest)) == 1
    node.now_ms += TIMING.retry_ms
    assert asked(node) == (2, 100)
    node.diverge(B, 100, (2, 50))
    assert len(node.sent(ResetRequest)) == 1


def test_retention_overtakes_a_slow_follower() -> None:
    node = leader((1, 10))
    node.sendings()
    node.acknowledge(B, 11)
    node.acknowledge(C, 5)
    node.diverge(C, 10, (1, 5))
    node.state.dropped_before(11)
    node.sendings()
    ((follower, request),) = node.sent(ResetRequest)
    assert (follower, request.start_offset, request.start_term) == (C, 11, 5)


# --- membership ----------------------------------------------------------------------------------


def test_a_membership_holds_when_it_is_written() -> None:
    """Dissertation, 4.1."""
    node = leader()
    node.acknowledge(B, 1)
    assert node.leading.may_change(of(A, B, C, D))
    end = node.propose(membership=of(A, B, C, D))
    assert set(node.leading.followers) == {B, C, D}
    node.acknowledge(B, end)
    assert node.state.commit_offset == 1
    node.acknowledge(D, end)
    assert node.state.commit_offset == end


def test_a_membership_waits_for_the_one_before() -> None:
    """Dissertation, 4.1."""
    node = leader()
    node.acknowledge(B, 1)
    end = node.propose(membership=of(A, B))
    assert not node.leading.may_change(THREE)
    node.acknowledge(B, end)
    assert node.leading.may_change(THREE)


def test_a_membership_waits_for_a_record_of_the_term() -> None:
    """The correction to 4.1: else two leaders may change the same membership differently."""
    node = OneNode((1, 10), term=1)
    node.elect(B, C, noop=False)
    node.acknowledge(B, 10)
    assert not node.leading.may_change(of(A, B))
    end = node.propose()
    assert not node.leading.may_change(of(A, B))
    node.acknowledge(B, end)
    assert node.leading.may_change(of(A, B))
    assert not node.leading.may_change(of(A))


def test_a_membership_may_change_when_all_records_are_dropped() -> None:
    node = leader()
    node.acknowledge(B, 1)
    node.state.dropped_before(1)
    assert node.leading.may_change(of(A, B))


def test_a_leader_that_leaves_leads_until_that_is_committed() -> None:
    """Dissertation, 4.2.2: it replicates what it does not count itself for."""
    node = leader()
    node.acknowledge(B, 1)
    end = node.propose(membership=of(B, C))
    node.acknowledge(B, end)
    assert node.raft.leading is not None
    assert node.state.commit_offset == 1
    node.acknowledge(C, end)
    assert node.state.commit_offset == end
    assert node.raft.leading is None


def test_a_follower_that_leaves_is_sent_nothing_more() -> None:
    node = leader()
    node.acknowledge(B, 1)
    node.propose(membership=of(A, B))
    assert set(node.leading.followers) == {B}
    node.acknowledge(C, 1)
    assert C not in node.leading.followers


# --- transfer ------------------------------------------------------------------------------------


def test_leadership_is_handed_to_one_that_has_everything() -> None:
    """Dissertation, 3.10."""
    node = leader()
    end = node.propose()
    node.acknowledge(B, 1)
    assert node.raft.transfer(B, node.now_ms)
    assert node.leading.transfer_to == B
    assert node.sent(CampaignRequest) == []
    node.acknowledge(B, end)
    assert node.sent(CampaignRequest) == [(B, CampaignRequest(term=5))]


def test_one_that_has_everything_is_asked_at_once() -> None:
    node = leader()
    node.acknowledge(B, 1)
    assert node.raft.transfer(B, node.now_ms)
    assert node.sent(CampaignRequest) == [(B, CampaignRequest(term=5))]


def test_a_transfer_that_takes_too_long_is_given_up() -> None:
    """Dissertation, 3.10: after an election's time, and clients are served again."""
    node = leader()
    node.now_ms += TIMING.election_ms // 2
    node.raft.hear(B, node.now_ms)
    assert node.raft.transfer(B, node.now_ms)
    by_ms = node.now_ms + TIMING.election_ms
    while node.now_ms < by_ms:
        node.raft.hear(B, node.now_ms)
        assert node.leading.transfer_to == B
        node.wait(TIMING.election_ms // 10)
    assert node.leading.transfer_to is None


def test_only_another_voter_can_take_over() -> None:
    node = leader(membership=of(A, B, learners=(C,)))
    for other in (A, C, D):
        assert not node.raft.transfer(other, node.now_ms)
    assert not OneNode().raft.transfer(B, 0)


def test_who_has_everything_or_had_it_lately_is_in_sync() -> None:
    node = OneNode()
    node.elect(B)
    end = node.propose()
    node.sendings()
    node.acknowledge(B, end)
    assert node.leading.is_in_sync(B, node.now_ms)
    assert not node.leading.is_in_sync(C, node.now_ms)
    node.propose()
    assert node.leading.is_in_sync(B, node.now_ms), "it had everything a moment ago"
    node.now_ms += 10
    assert not node.leading.is_in_sync(B, node.now_ms)


def test_a_follower_that_was_restarted_is_asked_again() -> None:
    node = OneNode()
    node.elect(B)
    end = node.propose()
    node.sendings()
    node.acknowledge(B, end)
    committed = node.state.commit_offset
    assert not [sending for sending in node.sendings() if sending.node == B]
    node.leading.restarted(B, node.now_ms)
    assert [sending.previous_offset for sending in node.sendings() if sending.node == B] == [end]
    assert node.state.commit_offset == committed
