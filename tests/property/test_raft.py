"""Consensus under faults, by chance: whole clusters from seeds, and one node among hostile ones.

A seed that fails says how to run it again; PENSTOCK_RAFT_SEEDS=1000:6000 runs other seeds.
"""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import CorruptLog
from penstock.raft.core import Raft
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    BatchPlace,
    CampaignRequest,
    Message,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.state import SavedState, Timing
from penstock.raft.terms import TermHistory
from tests.kit.runs.tiers import seeds
from tests.kit.simulation.raft.run import run_seed

SEEDS = 200
ASKED_FOR = os.environ.get("PENSTOCK_RAFT_SEEDS", "")


def test_clusters_keep_every_promise() -> None:
    """R-REP-1, R-REP-2, R-REP-7: whatever fails, and for however long."""
    chosen = range(*map(int, ASKED_FOR.split(":"))) if ASKED_FOR else seeds(SEEDS)
    worth: Counter[str] = sum((run_seed(seed).worth for seed in chosen), Counter())
    # A run in which nothing happens proves nothing.
    count = len(chosen)
    assert worth["elections"] > 3 * count
    assert worth["messages acknowledged"] > 40 * count
    assert worth["changes of membership"] > count
    assert worth["copies begun anew"] or count < 50


A, B, C, D = (Node(broker, 1) for broker in range(1, 5))
nodes = st.sampled_from((A, B, C, D))
terms = st.integers(0, 6)
offsets = st.integers(-2, 12)
memberships = st.builds(Membership, st.frozensets(nodes), st.frozensets(nodes))
places = st.builds(BatchPlace, offsets, offsets, terms, st.none() | memberships)


@st.composite
def plausible_batches(draw: st.DrawFn) -> tuple[int, tuple[BatchPlace, ...]]:
    """From where, and batches that follow each other: else nearly all would be refused at once."""
    start = offset = draw(st.integers(0, 8))
    batches = []
    for term, size in draw(st.lists(st.tuples(terms, st.integers(1, 3)), max_size=3)):
        batches.append(BatchPlace(offset, offset + size, term))
        offset += size
    return start, tuple(batches)


plausible_appends = st.builds(
    lambda term, previous_term, run, commit_offset: AppendRequest(
        term=term,
        previous_term=previous_term,
        previous_offset=run[0],
        commit_offset=commit_offset,
        batches=run[1],
    ),
    terms,
    terms,
    plausible_batches(),
    offsets,
)
messages: st.SearchStrategy[Message] = st.one_of(
    plausible_appends,
    plausible_appends,
    st.builds(
        AppendRequest,
        term=terms,
        previous_term=terms,
        previous_offset=offsets,
        commit_offset=offsets,
        batches=st.lists(places, max_size=3).map(tuple),
    ),
    st.builds(
        AppendAnswer,
        term=terms,
        is_matching=st.booleans(),
        end_offset=offsets,
        last_term=terms,
        asked_offset=offsets,
    ),
    st.builds(
        VoteRequest,
        term=terms,
        last_term=terms,
        end_offset=offsets,
        is_trial=st.booleans(),
        is_transfer=st.booleans(),
    ),
    st.builds(VoteAnswer, term=terms, is_trial=st.booleans(), is_granted=st.booleans()),
    st.builds(
        ResetRequest,
        term=terms,
        start_offset=offsets,
        start_term=terms,
        membership=memberships,
    ),
    st.builds(CampaignRequest, term=terms),
)
# A message of somebody, or so much time.
events = st.tuples(nodes, messages) | st.integers(0, 200)


def tell(raft: Raft, sender: Node, message: Message, now_ms: int) -> None:
    match message:
        case AppendRequest():
            plan = raft.plan_append(sender, message, now_ms)
            if plan is not None:
                if plan.truncate_to is not None:
                    raft.state.truncated(plan.truncate_to)
                raft.written(plan.batches, now_ms)
                raft.matched(message)
                raft.durable(raft.state.terms.end_offset, now_ms)
        case AppendAnswer():
            raft.on_append_answer(sender, message, now_ms)
        case VoteRequest():
            raft.on_vote_request(sender, message, now_ms)
        case VoteAnswer():
            raft.on_vote_answer(sender, message, now_ms)
        case ResetRequest():
            raft.on_reset_request(sender, message, now_ms)
        case CampaignRequest():
            raft.on_campaign_request(sender, message, now_ms)


def lead(raft: Raft, now_ms: int) -> None:
    """What the owner of a leader does."""
    if raft.leading is not None and raft.leading.is_noop_due:
        raft.extended(raft.state.terms.end_offset + 1)
        raft.durable(raft.state.terms.end_offset, now_ms)
    if raft.leading is not None:
        for sending in raft.leading.sendings(now_ms):
            raft.leading.sent(sending.node, sending.end_offset, now_ms)


@settings(max_examples=400, deadline=None)
@given(steps=st.lists(events, max_size=40))
def test_whatever_others_say_a_node_keeps_its_own_promises(
    steps: list[tuple[Node, Message] | int],
) -> None:
    """Hostile bytes end in a typed error or in nothing: never in another exception, a vote taken
    back, a term or a commit that goes back, or a committed record that changes."""
    first = MembershipAt(-1, 0, Membership(frozenset({A, B, C})))
    saved = SavedState(term=0, vote=None, terms=(), memberships=(first,))
    raft = Raft(
        A,
        saved,
        TermHistory(),
        timing=Timing(election_ms=100, retry_ms=30),
        draw_delay_ms=lambda: 50,
        now_ms=0,
    )
    state = raft.state
    now_ms = 0
    for step in steps:
        term, vote, commit_offset = state.term, state.vote, state.commit_offset
        committed = state.terms.term_before(commit_offset)
        try:
            if isinstance(step, int):
                now_ms += step
                raft.on_time(now_ms)
            else:
                tell(raft, *step, now_ms)
            lead(raft, now_ms)
        except CorruptLog:
            pass
        assert (state.term, state.commit_offset) >= (term, 0)
        assert state.commit_offset >= commit_offset
        assert state.term > term or vote in (None, state.vote)
        if commit_offset >= state.terms.start_offset:
            assert state.terms.term_before(commit_offset) == committed
        assert state.commit_offset <= state.terms.end_offset
        assert state.durable_offset <= state.terms.end_offset
