"""A node as a whole: elections, trials, stickiness, transfer, a lone voter; and the scenarios of
tests/golden/raft, which a reader can follow step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.model.errors import CorruptLog
from penstock.raft.campaign import Campaign
from penstock.raft.following import Following
from penstock.raft.messages import (
    AppendAnswer,
    CampaignRequest,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from tests.golden.raft.script import RaftScript
from tests.kit.raft.node import (
    DELAY_MS,
    THREE,
    TIMING,
    A,
    B,
    C,
    D,
    E,
    OneNode,
    batch,
    history,
    of,
)
from tests.kit.runs.golden_files import run_golden

SCENARIOS = sorted((Path(__file__).parents[2] / "golden" / "raft").glob("*.txt"))
FIVE = of(A, B, C, D, E)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    """R-REP-1, R-REP-2: who leads, and what is committed."""
    run_golden(path, RaftScript().interpret)


# --- elections -----------------------------------------------------------------------------------


def test_a_follower_waits_longer_than_an_election_before_it_tries() -> None:
    """Paper, 5.2: and not all wait equally long."""
    node = OneNode()
    assert node.raft.deadline_ms == node.now_ms + TIMING.election_ms + DELAY_MS
    node.wait(TIMING.election_ms + DELAY_MS - 1)
    assert node.sent(VoteRequest) == []
    node.wait(1)
    assert [to for to, _ in node.sent(VoteRequest)] == [B, C]


def test_a_follower_does_not_wait_for_a_leader_that_is_gone() -> None:
    """It tries soon; and whom it asked is as free to say yes as it is."""
    node = OneNode(term=1)
    node.raft.follow_commit(B, 1, 0, node.now_ms)
    node.raft.suspect(C, node.now_ms)
    assert node.raft.deadline_ms >= node.now_ms + TIMING.election_ms, "it does not lead"
    node.raft.suspect(B, node.now_ms)
    assert node.raft.deadline_ms == node.now_ms + DELAY_MS // 4
    request = VoteRequest(term=2, last_term=0, end_offset=0, is_trial=True)
    node.raft.on_vote_request(C, request, node.now_ms)
    assert [answer.is_granted for _, answer in node.sent(VoteAnswer)] == [True]
    node.raft.follow_commit(B, 1, 0, node.now_ms)
    node.raft.on_vote_request(C, request, node.now_ms)
    assert [answer.is_granted for _, answer in node.sent(VoteAnswer)] == [False], "heard again"


def test_a_campaign_that_nobody_answers_in_time_is_given_longer_next_time() -> None:
    """R-REP-2. Votes are saved before they are given. With a thousand partitions on a slow disk
    that took longer than an election, and campaigns followed each other for ever."""
    node = OneNode()
    node.time_out()
    asked = [asked_in_campaign(node) for _ in range(5)]
    assert asked == [1, 2, 4, 8, 8]
    node.vote(B, is_trial=True)
    no = VoteAnswer(term=node.state.term, is_trial=False, is_granted=False)
    node.raft.on_vote_answer(C, no, node.now_ms)
    node.time_out()
    assert asked_in_campaign(node) == 1, "a vote that was split is no slow one"


def asked_in_campaign(node: OneNode) -> int:
    """How often one is asked in the next campaign, for which the trial is under way, and which
    nobody answers."""
    node.vote(B, is_trial=True)
    for asked in range(1, 100):
        assert (C, False) in [(to, request.is_trial) for to, request in node.sent(VoteRequest)]
        assert node.raft.deadline_ms == node.now_ms + TIMING.election_ms + DELAY_MS
        campaign = node.raft.part
        node.time_out()
        if node.raft.part is not campaign:
            return asked
    raise AssertionError("it never ends")


def test_whoever_leads_or_is_led_is_patient_no_longer() -> None:
    node = OneNode()
    node.time_out()
    assert [asked_in_campaign(node) for _ in range(2)] == [1, 2]
    node.raft.follow_commit(B, node.state.term, 0, node.now_ms)
    node.time_out()
    assert asked_in_campaign(node) == 1


def test_the_time_for_an_answer_begins_when_the_question_is_saved() -> None:
    """Also for one that gave its vote: whoever it voted for hears of it only then."""
    node = OneNode()
    node.time_out()
    node.vote(B, is_trial=True)
    later_ms = node.now_ms + 10 * TIMING.election_ms
    node.raft.saved(later_ms)
    assert node.raft.deadline_ms == later_ms + TIMING.election_ms + DELAY_MS
    leader = OneNode()
    leader.time_out()
    leader.vote(B, is_trial=True)
    leader.vote(B)
    deadline_ms = leader.raft.deadline_ms
    leader.raft.saved(later_ms)
    assert leader.raft.deadline_ms == deadline_ms, "a leader looks after its majority in time"


def test_a_trial_comes_first_and_then_a_term() -> None:
    """Dissertation, 9.6."""
    node = OneNode(term=3)
    node.time_out()
    assert node.state.term == 3
    node.sent(VoteRequest)
    node.vote(B, is_trial=True)
    assert (node.state.term, node.state.vote) == (4, A)
    assert [message.is_trial for _, message in node.sent(VoteRequest)] == [False, False]
    assert node.state.is_unsaved
    node.vote(B)
    assert node.raft.leader == A
    assert node.leading.is_noop_due


def test_a_trial_that_fails_changes_no_term() -> None:
    """Dissertation, 9.6: a node that was cut off comes back and disturbs nobody."""
    node = OneNode(term=3)
    for _ in range(5):
        node.time_out()
        node.vote(B, C, is_trial=True, is_granted=False)
    assert node.state.term == 3


def test_one_vote_a_term() -> None:
    """Paper, 5.2: first come, first served; and it is saved before it is said."""
    node = OneNode(term=3)
    assert node.ask_for_vote(B, 4, (0, 0))
    assert (node.save().vote, node.save().term) == (B, 4)
    assert not node.ask_for_vote(C, 4, (9, 9))
    assert node.ask_for_vote(B, 4, (0, 0))
    assert node.ask_for_vote(C, 5, (0, 0))
    assert not node.ask_for_vote(B, 4, (9, 9))


def test_one_that_was_let_go_and_came_back_does_not_vote_before_it_has_what_it_knew() -> None:
    """R-REP-7: a candidate of long ago may know only of memberships in which it had a vote, and
    would take its empty log for proof that nothing was committed (seed 789 of the simulation)."""
    node = OneNode((1, 9), term=4)
    node.state.rejoin_offset = 10
    for is_trial in (True, False):
        request = VoteRequest(term=5, last_term=1, end_offset=9, is_trial=is_trial)
        node.raft.on_vote_request(B, request, node.now_ms)
    assert [answer.is_granted for _, answer in node.sent(VoteAnswer)] == [False, False]
    node.state.rejoin_offset = 9
    assert node.ask_for_vote(B, 5, (1, 9))


def test_a_vote_in_a_term_that_it_knew_already_is_saved() -> None:
    node = OneNode(term=4)
    assert not node.state.is_unsaved
    assert node.ask_for_vote(B, 4, (0, 0))
    assert node.state.is_unsaved


def test_a_vote_is_remembered_after_a_restart() -> None:
    node = OneNode(term=4, vote=B)
    assert not node.ask_for_vote(C, 4, (9, 9))
    assert node.ask_for_vote(B, 4, (0, 0))


@pytest.mark.parametrize(
    ("last", "is_granted"),
    [((2, 99), False), ((3, 19), False), ((3, 20), True), ((3, 21), True), ((4, 1), True)],
)
def test_votes_go_to_logs_that_lack_nothing(last: tuple[int, int], is_granted: bool) -> None:
    """Paper, 5.4.1: the later last term, then the longer log."""
    for is_trial in (True, False):
        node = OneNode((1, 10), (3, 20), term=3)
        assert node.ask_for_vote(B, 4, last, is_trial=is_trial) == is_granted
        assert node.state.vote == (B if is_granted and not is_trial else None)


def test_a_trial_promises_nothing() -> None:
    node = OneNode(term=3)
    for other in (B, C):
        assert node.ask_for_vote(other, 4, (0, 0), is_trial=True)
    assert (node.state.term, node.state.vote, node.state.is_unsaved) == (3, None, False)
    assert not node.ask_for_vote(B, 3, (0, 0), is_trial=True)


def test_who_hears_a_leader_votes_for_nobody() -> None:
    """Dissertation, 4.2.3: neither in a trial nor in earnest, and no term is taken over."""
    node = OneNode(term=3)
    node.append(B, 3, (0, 0))
    for is_trial in (True, False):
        assert not node.ask_for_vote(C, 9, (9, 9), is_trial=is_trial)
    assert node.state.term == 3
    node.now_ms += TIMING.election_ms
    assert node.ask_for_vote(C, 9, (9, 9))


def test_a_leader_that_a_majority_hears_is_not_deposed() -> None:
    """Dissertation, 4.2.3."""
    node = OneNode()
    node.elect(B, C)
    assert not node.ask_for_vote(C, 9, (9, 9))
    assert node.raft.leader == A
    node.now_ms += TIMING.election_ms + 1
    assert node.ask_for_vote(C, 9, (9, 9))
    assert node.raft.leader is None


def test_a_leader_that_no_majority_hears_steps_down() -> None:
    """Dissertation, 6.2."""
    node = OneNode(membership=FIVE)
    node.elect(B, C)
    leaders = []
    for heard in ((B, C), (D,)):
        node.now_ms += TIMING.election_ms // 2
        for follower in heard:
            node.raft.hear(follower, node.now_ms)
        node.time_out()
        leaders.append(node.raft.leader)
    assert leaders == [A, None]
    assert node.state.term == 1


def test_heartbeats_keep_a_leader_and_its_followers() -> None:
    node = OneNode(term=3)
    node.append(B, 3, (0, 0))
    for _ in range(5):
        node.wait(TIMING.election_ms)
        node.raft.hear(B, node.now_ms)
    assert node.raft.leader == B
    node.raft.hear(C, node.now_ms + TIMING.election_ms)
    node.time_out()
    assert node.raft.leader is None


def test_a_heartbeat_is_not_an_acknowledgement() -> None:
    node = OneNode()
    node.elect(B, C)
    node.propose()
    node.raft.hear(B, node.now_ms)
    node.raft.hear(C, node.now_ms)
    assert node.state.commit_offset == 0


def test_a_later_term_ends_everything() -> None:
    """Paper, 5.1."""
    for message in ("append", "vote answer", "append answer"):
        node = OneNode()
        node.elect(B, C)
        match message:
            case "append":
                node.append(B, 7, (0, 0))
            case "vote answer":
                answer = VoteAnswer(term=7, is_trial=True, is_granted=False)
                node.raft.on_vote_answer(B, answer, node.now_ms)
            case "append answer":
                node.raft.on_append_answer(
                    B, AppendAnswer(term=7, is_matching=False, end_offset=0), node.now_ms
                )
        assert isinstance(node.raft.part, Following)
        assert (node.state.term, node.state.vote, node.state.is_unsaved) == (7, None, True)


def test_the_answer_to_a_trial_of_its_own_is_no_later_term() -> None:
    node = OneNode(membership=FIVE, term=3)
    node.time_out()
    node.vote(B, is_trial=True)
    assert isinstance(node.raft.part, Campaign)
    assert node.state.term == 3


def test_an_old_leader_is_told() -> None:
    """Paper, 5.1."""
    node = OneNode(term=5)
    node.append(B, 4, (0, 0), batch(0, 5, 4))
    assert node.sent(AppendAnswer) == [
        (B, AppendAnswer(term=5, is_matching=False, end_offset=0)),
    ]
    assert node.state.terms.end_offset == 0
    node.raft.follow_commit(B, 4, 0, node.now_ms)
    assert len(node.sent(AppendAnswer)) == 1


def test_an_answer_of_an_older_term_is_not_counted() -> None:
    """The follower's log may have been cut since."""
    node = OneNode(term=3)
    node.elect(B, C)
    end = node.propose()
    answer = AppendAnswer(term=3, is_matching=True, end_offset=end)
    node.raft.on_append_answer(B, answer, node.now_ms)
    assert node.state.commit_offset == 0


def test_a_candidate_follows_who_was_elected_in_its_term() -> None:
    """Paper, 5.2."""
    node = OneNode(membership=FIVE)
    node.time_out()
    node.vote(B, C, is_trial=True)
    node.append(D, 1, (0, 0))
    assert node.raft.leader == D
    node.vote(B, C)
    assert node.raft.leader == D


def test_who_lost_patience_for_a_moment_goes_on_where_it_was() -> None:
    """The leader has its answer and sends nothing again: it can only say what is committed."""
    node = OneNode(term=3)
    node.append(B, 3, (0, 0), batch(0, 2, 3))
    node.time_out()
    assert isinstance(node.raft.part, Campaign)
    node.raft.follow_commit(B, 3, 2, node.now_ms)
    assert node.state.commit_offset == 2


def test_what_another_leader_had_is_not_taken_for_the_new_one_s() -> None:
    node = OneNode(term=3)
    node.append(B, 3, (0, 0), batch(0, 2, 3))
    node.time_out()
    node.raft.follow_commit(C, 4, 2, node.now_ms)
    assert node.state.commit_offset == 0


def test_what_could_not_be_written_is_taken_back() -> None:
    node = OneNode()
    node.elect(B)
    end_offset = node.state.terms.end_offset
    change = batch(end_offset, end_offset + 1, node.state.term, of(A, B, learners=(D,)))
    node.raft.written([change], node.now_ms)
    assert set(node.leading.followers) == {B, D}
    node.leading.followers[B].next_offset = end_offset + 1
    node.state.truncated(end_offset)
    node.leading.follow_membership(node.now_ms)
    assert node.state.membership == THREE
    assert node.state.terms.end_offset == end_offset
    assert set(node.leading.followers) == {B, C}
    assert [sending.previous_offset for sending in node.sendings()] == [end_offset] * 2


def test_two_leaders_in_one_term_are_refused() -> None:
    node = OneNode(term=3)
    node.append(B, 3, (0, 0))
    with pytest.raises(CorruptLog, match="Two replicas lead in term 3: 2/1 and 3/1"):
        node.append(C, 3, (0, 0))
    leader = OneNode()
    leader.elect(B, C)
    with pytest.raises(CorruptLog, match="Two replicas lead in term 1: 1/1 and 2/1"):
        leader.append(B, 1, (0, 0))


def test_what_is_no_log_is_refused_before_anything_changes() -> None:
    node = OneNode(term=3)
    with pytest.raises(CorruptLog):
        node.append(B, 7, (0, 0), batch(0, 0, 7))
    request = ResetRequest(term=7, start_offset=9, start_term=8, membership=THREE)
    with pytest.raises(CorruptLog):
        node.raft.on_reset_request(B, request, node.now_ms)
    assert (node.state.term, node.raft.leader) == (3, None)


# --- transfer, learners, leaving -----------------------------------------------------------------


def test_who_is_asked_to_lead_campaigns_at_once() -> None:
    """Dissertation, 3.10: without a trial, and others do not refuse because the leader lives."""
    node = OneNode(term=3)
    node.append(B, 3, (0, 0))
    node.raft.on_campaign_request(B, CampaignRequest(term=3), node.now_ms)
    requests = node.sent(VoteRequest)
    assert [(to, message.is_trial, message.is_transfer) for to, message in requests] == [
        (B, False, True),
        (C, False, True),
    ]
    other = OneNode(term=3)
    other.append(B, 3, (0, 0))
    assert other.ask_for_vote(C, 4, (0, 0), is_transfer=True)


def test_only_the_leader_of_the_term_can_ask_for_that() -> None:
    node = OneNode(term=3)
    node.append(B, 3, (0, 0))
    node.raft.on_campaign_request(C, CampaignRequest(term=3), node.now_ms)
    node.raft.on_campaign_request(B, CampaignRequest(term=2), node.now_ms)
    assert (node.state.term, node.raft.leader) == (3, B)


def test_a_learner_follows_and_never_campaigns() -> None:
    node = OneNode(membership=of(B, C, learners=(A,)), term=3)
    node.append(B, 3, (0, 0), batch(0, 5, 3))
    assert node.sent(AppendAnswer)[-1:] == [
        (B, AppendAnswer(term=3, is_matching=True, end_offset=5))
    ]
    node.raft.on_campaign_request(B, CampaignRequest(term=3), node.now_ms)
    node.time_out()
    node.time_out()
    assert node.sent(VoteRequest) == []
    assert (node.state.term, node.raft.leader) == (3, None)
    # It may not know yet that it has become a voter, so it votes (dissertation, 4.2.1).
    assert node.ask_for_vote(B, 4, (3, 5))


def test_a_membership_that_is_cut_is_taken_back() -> None:
    """Dissertation, 4.1."""
    node = OneNode((1, 10), term=3)
    node.append(B, 3, (1, 10), batch(10, 11, 3, of(A, B)))
    assert node.state.membership == of(A, B)
    node.append(C, 4, (1, 10), batch(10, 11, 4))
    assert node.state.membership == THREE


# --- a lone voter --------------------------------------------------------------------------------


def test_a_lone_voter_leads_at_once() -> None:
    node = OneNode(membership=of(A))
    assert node.raft.deadline_ms == node.now_ms
    node.wait(0)
    assert (node.raft.leader, node.state.term, node.state.vote) == (A, 1, A)
    assert node.state.is_unsaved
    assert node.leading.is_noop_due
    end = node.propose(5)
    assert node.state.commit_offset == end
    node.wait(10 * TIMING.election_ms)
    assert node.raft.leader == A


def test_a_lone_voter_restarts_without_saving_anything() -> None:
    """A thousand partitions of one replica must not cost a thousand writes when a broker starts;
    and what was found is committed at once."""
    node = OneNode((1, 20), membership=of(A), term=1, vote=A)
    node.wait(0)
    assert (node.raft.leader, node.state.term, node.state.is_unsaved) == (A, 1, False)
    assert node.state.commit_offset == 20
    assert not node.leading.is_noop_due


def test_a_lone_voter_with_records_of_an_older_term_writes_one_of_its_own() -> None:
    node = OneNode((1, 20), membership=of(A), term=2, vote=A)
    node.wait(0)
    assert (node.state.commit_offset, node.leading.is_noop_due) == (0, True)
    assert node.propose() == node.state.commit_offset == 21


def test_a_lone_voter_that_voted_for_another_begins_a_term() -> None:
    node = OneNode((1, 20), membership=of(A), term=2, vote=B)
    node.wait(0)
    assert (node.raft.leader, node.state.term) == (A, 3)


def test_who_becomes_alone_in_anothers_term_begins_its_own() -> None:
    """It voted for itself in this term and lost: its leader wrote records in it."""
    node = OneNode((1, 20), membership=of(A, B), term=1)
    node.time_out()
    node.vote(B, is_trial=True)
    assert (node.state.term, node.state.vote) == (2, A)
    node.append(B, 2, (1, 20), batch(20, 21, 2, of(A)))
    node.time_out()
    assert (node.raft.leader, node.state.term) == (A, 3)


def test_found_after_its_log_was_begun_anew() -> None:
    """The term before the start is known, so a leader's first question finds it."""
    node = OneNode(term=5)
    request = ResetRequest(term=5, start_offset=100, start_term=4, membership=THREE)
    assert node.raft.on_reset_request(B, request, node.now_ms)
    saved = node.save()
    again = OneNode(term=5, terms=history(start_offset=100, start_term=saved.terms[0].term))
    again.append(B, 5, (4, 100), batch(100, 101, 5))
    assert again.state.terms.end_offset == 101
