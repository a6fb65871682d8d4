"""A node that wants to lead: first it asks whether it would be elected, then it asks for votes.

The trial (pre-vote, dissertation 9.6) changes nobody's term, so a node that was cut off and comes
back disturbs nobody. The invariant: a vote counts for the term and the kind it was asked for.
"""

from __future__ import annotations

from penstock.raft.membership import Node
from penstock.raft.messages import VoteAnswer, VoteRequest
from penstock.raft.state import NodeState


class Campaign:
    """In one term, of one kind."""

    __slots__ = ("_answered", "_request", "_state", "_votes", "is_trial", "rounds", "term")

    def __init__(self, state: NodeState, *, is_trial: bool, is_transfer: bool) -> None:
        """A campaign in earnest begins a term, with this node's own vote."""
        if not is_trial:
            state.enter_term(state.term + 1, state.me)
        self.is_trial = is_trial
        self.term = state.term + 1 if is_trial else state.term
        self._state = state
        self._votes = {state.me: True}
        self._answered = {state.me}
        self._request = VoteRequest(
            term=self.term,
            last_term=state.terms.last_term,
            end_offset=state.terms.end_offset,
            is_trial=is_trial,
            is_transfer=is_transfer,
        )
        # How often those who say nothing were asked.
        self.rounds = 0
        self.ask()

    def ask(self) -> None:
        """Those who have said nothing so far: the question may be lost, or the answer."""
        self.rounds += 1
        for node in sorted(self._state.membership.voters - self._answered):
            self._state.send(node, self._request)

    @property
    def is_won(self) -> bool:
        """Paper, 5.2: a majority of the voters is for it."""
        membership = self._state.membership
        granted = sum(self._votes.get(node, False) for node in membership.voters)
        return granted >= membership.majority

    @property
    def is_answered(self) -> bool:
        """Whether a majority said anything, be it no."""
        membership = self._state.membership
        return len(self._answered & membership.voters) >= membership.majority

    def count(self, sender: Node, answer: VoteAnswer) -> None:
        if answer.is_trial != self.is_trial or (answer.is_granted and answer.term != self.term):
            # To another question, of a campaign before this one.
            return
        self._answered.add(sender)
        if answer.is_granted:
            self._votes[sender] = True
