"""One node under test, and shorthands for what it is given: no time passes unless a test says so.

Unlike the cluster of `tests.kit.simulation.raft`, nothing answers by itself: a test says every
message. The log is imagined: what the node wants written is written and durable at once, unless
said otherwise.
"""

from __future__ import annotations

from typing import TypeVar

from penstock.raft.core import Raft
from penstock.raft.leadership import Leadership, Sending
from penstock.raft.membership import Membership, MembershipAt, Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    BatchPlace,
    Message,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.state import NodeState, SavedState, Timing
from penstock.raft.terms import TermHistory

A, B, C, D, E = (Node(broker, 1) for broker in range(1, 6))
TIMING = Timing(election_ms=100, retry_ms=30)
# What a node waits beyond the election time: nothing by chance in these tests.
DELAY_MS = 50

M = TypeVar("M", bound=Message)


def of(*voters: Node, learners: tuple[Node, ...] = ()) -> Membership:
    return Membership(frozenset(voters), frozenset(learners))


THREE = of(A, B, C)


def saved_state(
    membership: Membership = THREE, term: int = 0, vote: Node | None = None
) -> SavedState:
    first = MembershipAt(-1, 0, membership)
    return SavedState(term=term, vote=vote, terms=(), memberships=(first,))


def history(*ends: tuple[int, int], start_offset: int = 0, start_term: int = 0) -> TermHistory:
    """Of a log with batches of (term, end offset)."""
    terms = TermHistory(start_offset, start_term)
    for term, end_offset in ends:
        terms.extend(term, end_offset)
    return terms


def node_state(*ends: tuple[int, int], membership: Membership = THREE, term: int = 0) -> NodeState:
    return NodeState(A, saved_state(membership, term), history(*ends), TIMING)


def batch(
    base_offset: int, end_offset: int, term: int, membership: Membership | None = None
) -> BatchPlace:
    return BatchPlace(base_offset, end_offset, term, membership)


class OneNode:
    """Node A, unless another is wanted."""

    def __init__(
        self,
        *ends: tuple[int, int],
        membership: Membership = THREE,
        term: int = 0,
        vote: Node | None = None,
        me: Node = A,
        terms: TermHistory | None = None,
    ) -> None:
        self.now_ms = 1_000
        self.raft = Raft(
            me,
            saved_state(membership, term, vote),
            history(*ends) if terms is None else terms,
            timing=TIMING,
            draw_delay_ms=lambda: DELAY_MS,
            now_ms=self.now_ms,
        )

    @property
    def state(self) -> NodeState:
        return self.raft.state

    @property
    def leading(self) -> Leadership:
        assert self.raft.leading is not None
        return self.raft.leading

    def sent(self, kind: type[M]) -> list[tuple[Node, M]]:
        """What it has said of this kind, once; everything else is forgotten."""
        outbox, self.state.outbox = self.state.outbox, []
        return [(node, message) for node, message in outbox if isinstance(message, kind)]

    def save(self) -> SavedState:
        self.state.is_unsaved = False
        return self.state.saved

    # --- time ------------------------------------------------------------------------------------

    def wait(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.raft.on_time(self.now_ms)

    def time_out(self) -> None:
        self.now_ms = max(self.now_ms, self.raft.deadline_ms)
        self.raft.on_time(self.now_ms)

    # --- as a follower ---------------------------------------------------------------------------

    def append(
        self,
        sender: Node,
        term: int,
        previous: tuple[int, int],
        *batches: BatchPlace,
        commit_offset: int = 0,
        is_durable: bool = True,
    ) -> AppendRequest:
        """The whole way of a request. previous: the term, and the offset after it."""
        request = AppendRequest(
            term=term,
            previous_term=previous[0],
            previous_offset=previous[1],
            commit_offset=commit_offset,
            batches=batches,
        )
        plan = self.raft.plan_append(sender, request, self.now_ms)
        if plan is not None:
            if plan.truncate_to is not None:
                self.state.truncated(plan.truncate_to)
            self.raft.written(plan.batches, self.now_ms)
            self.raft.matched(request)
            if is_durable:
                self.raft.durable(self.state.terms.end_offset, self.now_ms)
        return request

    def ask_for_vote(
        self,
        sender: Node,
        term: int,
        last: tuple[int, int],
        *,
        is_trial: bool = False,
        is_transfer: bool = False,
    ) -> bool:
        """Whether it was granted. last: the term of the candidate's last record, and its end."""
        request = VoteRequest(
            term=term,
            last_term=last[0],
            end_offset=last[1],
            is_trial=is_trial,
            is_transfer=is_transfer,
        )
        self.raft.on_vote_request(sender, request, self.now_ms)
        ((node, answer),) = self.sent(VoteAnswer)
        assert node == sender
        assert answer.is_trial == is_trial
        return answer.is_granted

    # --- as a candidate and a leader -------------------------------------------------------------

    def vote(self, *voters: Node, is_trial: bool = False, is_granted: bool = True) -> None:
        term = self.state.term + 1 if is_trial and is_granted else self.state.term
        answer = VoteAnswer(term=term, is_trial=is_trial, is_granted=is_granted)
        for voter in voters:
            self.raft.on_vote_answer(voter, answer, self.now_ms)

    def elect(self, *voters: Node, noop: bool = True) -> None:
        """Time out, win a trial and an election, and write the record of the new term."""
        self.time_out()
        self.vote(*voters, is_trial=True)
        self.vote(*voters)
        assert self.raft.leading is not None
        if noop and self.leading.is_noop_due:
            self.propose()
        self.state.outbox.clear()
        self.save()

    def propose(self, size: int = 1, membership: Membership | None = None) -> int:
        """Durable here at once. Returns where it ends."""
        base_offset = self.state.terms.end_offset
        place = batch(base_offset, base_offset + size, self.state.term, membership)
        self.raft.written([place], self.now_ms)
        self.raft.durable(place.end_offset, self.now_ms)
        return place.end_offset

    def sendings(self) -> list[Sending]:
        """All of them leave, with everything they may have."""
        due = self.leading.sendings(self.now_ms)
        for sending in due:
            self.leading.sent(sending.node, sending.end_offset, self.now_ms)
        return due

    def acknowledge(self, sender: Node, end_offset: int) -> None:
        answer = AppendAnswer(term=self.state.term, is_matching=True, end_offset=end_offset)
        self.raft.on_append_answer(sender, answer, self.now_ms)

    def diverge(self, sender: Node, asked_offset: int, last: tuple[int, int]) -> None:
        """last: the largest term of the sender's log up to the one asked for, and its end."""
        answer = AppendAnswer(
            term=self.state.term,
            is_matching=False,
            end_offset=last[1],
            last_term=last[0],
            asked_offset=asked_offset,
        )
        self.raft.on_append_answer(sender, answer, self.now_ms)
