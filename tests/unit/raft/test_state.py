"""What a node keeps: when it must be saved, what it forgets, when it leads without a new term."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.raft.membership import MembershipAt
from penstock.raft.state import NodeState
from penstock.raft.terms import TermHistory, TermStart
from tests.kit.raft.node import TIMING, A, B, batch, history, node_state, of, saved_state


def found(state: NodeState, end_offset: int) -> NodeState:
    """The node after a crash that left so much of its log."""
    saved = state.saved
    terms = TermHistory.found(saved.terms, state.terms.start_offset, end_offset)
    return NodeState(A, saved, terms, TIMING)


def test_a_term_begins_with_a_vote_or_none_and_is_to_be_saved() -> None:
    state = node_state(term=3)
    assert state.is_unsaved is False
    state.enter_term(4, B)
    assert (state.saved.term, state.saved.vote, state.is_unsaved) == (4, B, True)
    with pytest.raises(AssertionError):
        state.enter_term(4)


def takes_a_save(state: NodeState) -> bool:
    """Whether it had to be saved; it is, from now on."""
    is_unsaved, state.is_unsaved = state.is_unsaved, False
    return is_unsaved


def test_only_what_is_new_is_to_be_saved() -> None:
    """A batch of a known term costs no write besides its own."""
    state = node_state((1, 10), term=1)
    state.written([batch(10, 12, 1)])
    assert not takes_a_save(state)
    state.written([batch(12, 13, 2)])
    assert takes_a_save(state)
    state.written([batch(13, 14, 2, of(A, B))])
    assert takes_a_save(state)
    state.truncated(13)
    assert takes_a_save(state)


def test_a_cut_takes_what_was_durable_and_the_membership() -> None:
    state = node_state((1, 10), term=1)
    state.written([batch(10, 12, 1, of(A, B))])
    state.durable(12)
    assert state.membership == of(A, B)
    state.truncated(10)
    assert (state.durable_offset, state.membership) == (10, node_state().membership)


def test_nothing_committed_is_cut() -> None:
    state = node_state((1, 10), term=1)
    state.commit(5)
    with pytest.raises(AssertionError):
        state.truncated(4)


def test_commit_never_goes_back() -> None:
    state = node_state((1, 10), term=1)
    state.commit(5)
    state.commit(3)
    assert state.commit_offset == 5


def test_a_flush_is_of_no_more_than_there_is() -> None:
    state = node_state((1, 10), term=1)
    state.written([batch(10, 12, 1)])
    assert state.durable_offset == 10
    state.durable(99)
    assert state.durable_offset == 12
    state.durable(3)
    assert state.durable_offset == 12


def test_only_what_is_committed_and_durable_is_dropped() -> None:
    state = node_state((1, 10), term=1)
    state.written([batch(10, 12, 1)])
    state.commit(12)
    with pytest.raises(AssertionError):
        state.dropped_before(12)
    state.dropped_before(10)
    assert state.terms.start_offset == 10


def test_a_membership_may_be_lost_here_though_it_is_committed() -> None:
    """It is committed by others' copies. After a crash the one before must still be known."""
    state = node_state((1, 10), term=1)
    state.written([batch(10, 11, 1, of(A, B))])
    state.commit(11)
    assert found(state, 10).membership == node_state().membership
    state.durable(11)
    assert [at.offset for at in state.members.known] == [10]


def test_what_was_saved_and_never_written_is_not_believed_later() -> None:
    """Else an ordinary record of the same term in its place would pass for a membership."""
    state = node_state((1, 10), membership=of(A), term=1)
    state.written([batch(10, 11, 1, of(A, B))])
    again = found(state, 10)
    assert again.membership == of(A)
    assert again.is_unsaved
    again.written([batch(10, 12, 1)])
    assert found(again, 12).membership == of(A)
    assert not found(state, 11).is_unsaved


def test_begun_anew() -> None:
    state = node_state((1, 10), (2, 20), term=3)
    state.written([batch(20, 21, 2, of(A, B))])
    state.reset(100, 3, of(A))
    assert state.is_unsaved
    assert (state.commit_offset, state.durable_offset) == (100, 100)
    assert (state.membership, state.terms.last_term, state.terms.end_offset) == (of(A), 3, 100)
    again = found(state, 100)
    assert (again.terms.last_term, again.membership) == (3, of(A))
    assert state.saved.reset_offset == 100


def test_a_log_that_was_to_be_emptied_must_be_emptied_first() -> None:
    state = node_state((1, 10), term=3)
    state.reset(100, 3, of(A))
    with pytest.raises(AssertionError):
        NodeState(A, state.saved, history((1, 10)), TIMING)


def alone(vote_is_its_own: bool, latest: MembershipAt) -> NodeState:
    saved = saved_state(of(A), term=5, vote=A if vote_is_its_own else None)
    terms = (TermStart(5, 0),)
    saved = replace(saved, terms=terms, memberships=(latest,))
    return NodeState(A, saved, TermHistory.found(terms, 0, 20), TIMING)


def test_a_lone_voter_owns_a_term_it_voted_for_itself_in() -> None:
    assert alone(True, MembershipAt(-1, 0, of(A))).is_term_its_own
    assert alone(True, MembershipAt(3, 4, of(A, learners=(B,)))).is_term_its_own
    assert not alone(False, MembershipAt(-1, 0, of(A))).is_term_its_own
    assert not alone(True, MembershipAt(-1, 0, of(A, B))).is_term_its_own


def test_a_term_in_which_it_became_alone_may_be_anothers() -> None:
    """It voted for itself and lost; who won left it alone in the same term."""
    assert not alone(True, MembershipAt(10, 5, of(A))).is_term_its_own


def test_one_that_was_begun_anew_owns_no_term() -> None:
    state = node_state(membership=of(A, B), term=2)
    state.enter_term(3, A)
    state.reset(100, 1, of(A))
    assert state.is_alone
    assert not state.is_term_its_own


def test_what_a_lone_voter_may_forget_does_not_leave_it() -> None:
    """It may lead in the same term again, and write something else there."""
    state = node_state((1, 10), membership=of(A, learners=(B,)), term=1)
    state.written([batch(10, 12, 1)])
    assert state.sendable_offset == 10
    # Not alone any more, but a crash may take that back.
    state.written([batch(12, 13, 1, of(A, B))])
    assert state.sendable_offset == 10
    state.durable(13)
    state.written([batch(13, 14, 1)])
    assert state.sendable_offset == 13
    state.commit(13)
    assert state.sendable_offset == 14


def test_who_is_to_leave_may_campaign_until_that_is_certain() -> None:
    """Dissertation, 4.2.2, figure 4.6."""
    state = node_state((1, 10), membership=of(A, B), term=1)
    state.written([batch(10, 11, 1, of(B))])
    state.durable(11)
    before = state.may_campaign
    state.commit(11)
    assert (before, state.may_campaign) == (True, False)
    assert not node_state(membership=of(B, learners=(A,))).may_campaign


def test_one_that_was_let_go_and_came_back_waits_until_it_has_what_it_knew() -> None:
    """R-REP-7: on its way it meets a membership of its past, in which it was alone."""
    saved = replace(saved_state(of(B), term=4), rejoin_offset=10)
    state = NodeState(A, saved, history(), TIMING)
    state.written([batch(0, 5, 1, of(A)), batch(5, 9, 1)])
    on_the_way = state.may_campaign, state.is_whole
    state.written([batch(9, 10, 2, of(A, B))])
    assert (on_the_way, state.may_campaign, state.is_whole) == ((False, False), True, True)
    assert state.saved.rejoin_offset == 10, "a restart knows"
    state.is_unsaved = False
    state.commit(10)
    assert state.saved.rejoin_offset == 10, "a crash of the machine may still take it"
    state.durable(10)
    assert (state.saved.rejoin_offset, state.is_unsaved) == (0, True), "it is a copy like any other"
