"""Campaigns: what is asked, and which votes count."""

from __future__ import annotations

from penstock.raft.campaign import Campaign
from penstock.raft.messages import VoteAnswer, VoteRequest
from tests.kit.raft.node import A, B, C, D, E, node_state, of

FIVE = of(A, B, C, D, E)


def answer(term: int, *, is_trial: bool = False, is_granted: bool = True) -> VoteAnswer:
    return VoteAnswer(term=term, is_trial=is_trial, is_granted=is_granted)


def test_a_campaign_begins_a_term_and_asks_every_voter() -> None:
    """Paper, 5.2: it votes for itself and asks all others."""
    state = node_state((2, 10), membership=of(A, B, C, learners=(D,)), term=3)
    Campaign(state, is_trial=False, is_transfer=False)
    assert (state.term, state.vote, state.is_unsaved) == (4, A, True)
    request = VoteRequest(term=4, last_term=2, end_offset=10, is_trial=False)
    assert state.outbox == [(B, request), (C, request)]


def test_a_trial_changes_nothing() -> None:
    """Dissertation, 9.6."""
    state = node_state((2, 10), term=3)
    Campaign(state, is_trial=True, is_transfer=False)
    assert (state.term, state.vote, state.is_unsaved) == (3, None, False)
    assert [message for _, message in state.outbox] == 2 * [
        VoteRequest(term=4, last_term=2, end_offset=10, is_trial=True)
    ]


def test_a_majority_wins() -> None:
    """Paper, 5.2."""
    campaign = Campaign(node_state(membership=FIVE), is_trial=False, is_transfer=False)
    assert not campaign.is_won
    campaign.count(B, answer(1))
    assert not campaign.is_won
    campaign.count(C, answer(1))
    assert campaign.is_won


def test_a_vote_counts_once_and_only_where_it_was_asked_for() -> None:
    campaign = Campaign(node_state(membership=FIVE, term=4), is_trial=False, is_transfer=False)
    campaign.count(B, answer(5))
    campaign.count(B, answer(5))
    campaign.count(C, answer(4))
    campaign.count(C, answer(6))
    campaign.count(D, answer(5, is_trial=True))
    campaign.count(E, answer(5, is_granted=False))
    assert not campaign.is_won


def test_votes_of_learners_and_strangers_do_not_count() -> None:
    membership = of(A, B, C, learners=(D,))
    campaign = Campaign(node_state(membership=membership), is_trial=False, is_transfer=False)
    campaign.count(D, answer(1))
    campaign.count(E, answer(1))
    assert not campaign.is_won


def test_its_own_vote_does_not_count_if_it_is_to_leave() -> None:
    """Dissertation, 4.2.2."""
    campaign = Campaign(node_state(membership=of(B)), is_trial=False, is_transfer=False)
    assert not campaign.is_won
    campaign.count(B, answer(1))
    assert campaign.is_won


def test_a_late_vote_of_the_campaign_before_is_no_answer_to_this_one() -> None:
    """Whoever gave it is asked again, and the campaign is given its time."""
    state = node_state(term=4)
    campaign = Campaign(state, is_trial=False, is_transfer=False)
    campaign.count(B, answer(4))
    assert not campaign.is_answered
    state.outbox.clear()
    campaign.ask()
    assert [node for node, _ in state.outbox] == [B, C]
    campaign.count(B, answer(4, is_granted=False))
    assert campaign.is_answered, "no is no, whatever it was to"
