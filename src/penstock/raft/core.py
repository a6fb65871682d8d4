"""Consensus on one log: who leads, where logs agree, what is committed. Raft, on offsets.

A pure state machine. Whoever owns it gives it messages and the time, and does what it says: saves
`state.saved` while `state.is_unsaved`, and only then writes to the log, sends the `state.outbox`
and reports what is durable; reads and sends what `leading.sendings` asks for; cuts and writes the
log as `plan_append` says; appends a record of its own when `leading.is_noop_due`. It has no clock,
no disk, no chance of its own. The paper's sections are cited where a rule is theirs; where we
differ is in docs/divergence.md.

This is the node as a whole: which part it plays (following, campaign, leadership) and when that
changes. The invariant: a node votes once in a term and leads only with the votes of a majority, so
there is at most one leader in a term.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.model.errors import CorruptLog
from penstock.raft.campaign import Campaign
from penstock.raft.following import AppendPlan, Following
from penstock.raft.leadership import Leadership
from penstock.raft.membership import Node
from penstock.raft.messages import (
    AppendAnswer,
    AppendRequest,
    BatchPlace,
    CampaignRequest,
    ResetRequest,
    VoteAnswer,
    VoteRequest,
)
from penstock.raft.patience import Patience
from penstock.raft.state import NodeState, SavedState, Timing
from penstock.raft.terms import TermHistory


class Raft:
    """One node's part in the consensus on one log."""

    def __init__(
        self,
        me: Node,
        saved: SavedState,
        terms: TermHistory,
        *,
        timing: Timing,
        draw_delay_ms: Callable[[], int],
        now_ms: int,
    ) -> None:
        """terms: of the log as it was found, all of it durable.
        draw_delay_ms: by chance; what a node waits longer than it must, before it campaigns."""
        self.state = NodeState(me, saved, terms, timing)
        self._patience = Patience(timing.election_ms, draw_delay_ms)
        self.part: Following | Campaign | Leadership
        self.deadline_ms = now_ms
        self._follow(None, now_ms)
        if self.state.is_alone:
            # There is nobody to wait for.
            self.deadline_ms = now_ms

    @property
    def leader(self) -> Node | None:
        if isinstance(self.part, Following):
            return self.part.leader
        return self.state.me if isinstance(self.part, Leadership) else None

    @property
    def leading(self) -> Leadership | None:
        return self.part if isinstance(self.part, Leadership) else None

    # --- time ------------------------------------------------------------------------------------

    def on_time(self, now_ms: int) -> None:
        """Called at `deadline_ms` or later."""
        if now_ms < self.deadline_ms:
            return
        state = self.state
        if isinstance(self.part, Leadership):
            self.part.give_up_transfer(now_ms)
            if self.part.has_quorum(now_ms - state.timing.election_ms):
                self.deadline_ms = self.part.deadline_ms(now_ms)
            else:
                # Dissertation, 6.2: a leader that a majority does not hear must not think it leads.
                self._follow(None, now_ms)
        elif not state.may_campaign:
            self._follow(None, now_ms)
        elif state.is_term_its_own:
            self._lead(now_ms)
        elif isinstance(self.part, Campaign) and self._patience.is_enough_for(self.part):
            self.part.ask()
            self._wait(now_ms)
        else:
            self._campaign(now_ms, is_trial=True)

    def hear(self, node: Node, now_ms: int) -> None:
        """The node was heard of, for all logs that it and this node share at once; if it leads
        this one, it said that it still does: a node that is alive may have ceased to."""
        if isinstance(self.part, Leadership):
            if (progress := self.part.followers.get(node)) is not None:
                progress.heard_ms = now_ms
        elif isinstance(self.part, Following) and self.part.leader == node:
            self.part.heard_ms = now_ms
            self._wait(now_ms)

    def suspect(self, node: Node, now_ms: int) -> None:
        """The node seems to be gone. If it leads, do not wait for it as long as for one that is
        only silent: campaign soon, though not all at once. Those who still hear it say no."""
        if isinstance(self.part, Following) and self.part.leader == node:
            since_ms = now_ms - self.state.timing.election_ms
            self.part.heard_ms = min(self.part.heard_ms, since_ms)
            self.deadline_ms = min(self.deadline_ms, now_ms + self._patience.soon_ms())

    def saved(self, now_ms: int) -> None:
        """What had to be saved was, and only now is anybody told of it: what they have to do takes
        its time from now on."""
        if not isinstance(self.part, Leadership):
            self._wait(now_ms)

    def _wait(self, now_ms: int) -> None:
        self.deadline_ms = now_ms + self._patience.wait_ms()

    # --- following -------------------------------------------------------------------------------

    def plan_append(self, sender: Node, request: AppendRequest, now_ms: int) -> AppendPlan | None:
        """What to do to the log so that it is the leader's; None if nothing is. To be followed by
        `state.truncated` when it is cut, by `written`, and by `matched` when it is done."""
        request.check()
        following = self._follow_leader(sender, request.term, now_ms)
        return None if following is None else following.plan_append(request)

    def matched(self, request: AppendRequest) -> None:
        """All batches of the request, and all before them, are in the log."""
        # Another may lead by now, whose log is another.
        if isinstance(self.part, Following) and request.term == self.state.term:
            self.part.matched(request)

    def follow_commit(self, sender: Node, term: int, offset: int, now_ms: int) -> None:
        """The leader says that it leads, and how far all is committed."""
        following = self._follow_leader(sender, term, now_ms)
        if following is not None:
            following.follow_commit(offset)

    def on_reset_request(self, sender: Node, request: ResetRequest, now_ms: int) -> bool:
        """Whether the log must be emptied, durably, and begin where the request says: when the
        state is saved, and before anything is written or sent."""
        request.check()
        following = self._follow_leader(sender, request.term, now_ms)
        return following is not None and following.reset(request)

    def _follow_leader(self, sender: Node, term: int, now_ms: int) -> Following | None:
        """None if the sender no longer leads in that term, which it is told."""
        state = self.state
        if term < state.term:
            state.send(sender, AppendAnswer(term=state.term, is_matching=False, end_offset=0))
            return None
        if term == state.term and self.leader not in (None, sender):
            raise CorruptLog(f"Two replicas lead in term {term}: {self.leader} and {sender}.")
        if term > state.term:
            state.enter_term(term)
            self._follow(sender, now_ms)
        elif self.leader is None:
            self._follow(sender, now_ms)
        assert isinstance(self.part, Following)
        self.part.heard_ms = now_ms
        self._wait(now_ms)
        return self.part

    def _follow(self, leader: Node | None, now_ms: int) -> None:
        if leader is not None:
            self._patience.forget()
        self.part = Following(self.state, leader, now_ms)
        self._wait(now_ms)

    # --- elections -------------------------------------------------------------------------------

    def on_vote_request(self, sender: Node, request: VoteRequest, now_ms: int) -> None:
        state = self.state
        is_granted = False
        # Whether its vote says that the candidate has all that this node ever had.
        is_behind = state.is_whole and state.terms.is_behind(request.last_term, request.end_offset)
        if not request.is_transfer and _has_leader(self.part, now_ms - state.timing.election_ms):
            # Dissertation, 4.2.3: whoever cannot hear the leader must not depose it.
            pass
        elif request.is_trial:
            is_granted = request.term > state.term and is_behind
        else:
            if request.term > state.term:
                state.enter_term(request.term)
                self._follow(None, now_ms)
            is_granted = request.term == state.term and state.vote in (None, sender) and is_behind
            if is_granted and state.vote is None:
                state.vote = sender
                state.is_unsaved = True
                self._wait(now_ms)
        term = request.term if request.is_trial and is_granted else state.term
        answer = VoteAnswer(term=term, is_trial=request.is_trial, is_granted=is_granted)
        state.send(sender, answer)

    def on_vote_answer(self, sender: Node, answer: VoteAnswer, now_ms: int) -> None:
        if answer.term > self.state.term and not (answer.is_trial and answer.is_granted):
            self.state.enter_term(answer.term)
            self._follow(None, now_ms)
        elif isinstance(self.part, Campaign):
            self.part.count(sender, answer)
            self._go_on_if_won(self.part, now_ms)

    def on_campaign_request(self, sender: Node, request: CampaignRequest, now_ms: int) -> None:
        """The leader wants this node to lead instead: it does not wait, and it does not try."""
        if request.term == self.state.term and sender == self.leader != self.state.me:
            self._campaign(now_ms, is_trial=False, is_transfer=True)

    def _campaign(self, now_ms: int, *, is_trial: bool, is_transfer: bool = False) -> None:
        self._patience.learn(self.part)
        if not self.state.may_campaign:
            self._wait(now_ms)
            return
        self.part = Campaign(self.state, is_trial=is_trial, is_transfer=is_transfer)
        self._wait(now_ms)
        self._go_on_if_won(self.part, now_ms)

    def _go_on_if_won(self, campaign: Campaign, now_ms: int) -> None:
        if not campaign.is_won:
            return
        if campaign.is_trial:
            self._campaign(now_ms, is_trial=False)
        else:
            self._lead(now_ms)

    def _lead(self, now_ms: int) -> None:
        self._patience.forget()
        self.part = Leadership(self.state, now_ms)
        self.deadline_ms = self.part.deadline_ms(now_ms)
        # A node that is alone and leads in its old term has all the copies it needs.
        self.part.commit()

    def transfer(self, node: Node, now_ms: int) -> bool:
        """Let a voter lead instead, as soon as it has everything; whether that can be tried. It
        has failed when `transfer_to` is None again."""
        leading = self.leading
        if leading is None or not leading.transfer(node, now_ms):
            return False
        self.deadline_ms = min(self.deadline_ms, leading.deadline_ms(now_ms))
        return True

    # --- the log ---------------------------------------------------------------------------------

    def written(self, batches: Sequence[BatchPlace], now_ms: int) -> None:
        """These are at the log's end from now on; not necessarily durably. Their bytes are written
        when this is saved, so that a log is never found with terms that nobody knows."""
        self.state.written(batches)
        if isinstance(self.part, Leadership) and any(batch.membership for batch in batches):
            self.part.follow_membership(now_ms)

    def extended(self, end_offset: int) -> None:
        """A leader's log ends there from now on: what `written` says, for all batches of a turn at
        once, of its own term and none of them a membership."""
        assert isinstance(self.part, Leadership)
        if self.state.terms.extend(self.state.term, end_offset):
            self.state.is_unsaved = True

    def durable(self, offset: int, now_ms: int) -> None:
        """Everything in the log before the offset is durable, and so is `state.saved`."""
        self.state.durable(offset)
        if isinstance(self.part, Leadership):
            self.part.commit()
            if self.part.has_left:
                self._follow(None, now_ms)
        elif isinstance(self.part, Following):
            self.part.acknowledge()

    def on_append_answer(self, sender: Node, answer: AppendAnswer, now_ms: int) -> None:
        if answer.term > self.state.term:
            self.state.enter_term(answer.term)
            self._follow(None, now_ms)
        elif answer.term == self.state.term and isinstance(self.part, Leadership):
            self.part.answered(sender, answer, now_ms)
            if self.part.has_left:
                self._follow(None, now_ms)


def _has_leader(part: Following | Campaign | Leadership, since_ms: int) -> bool:
    """Whether one was heard of so lately that nobody needs another."""
    if isinstance(part, Leadership):
        return part.has_quorum(since_ms)
    return isinstance(part, Following) and part.leader is not None and part.heard_ms > since_ms
