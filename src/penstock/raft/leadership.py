"""A node that leads: it sends its log to the followers and says what is committed.

It exists for as long as one node leads in one term, and is thrown away with it. The invariants:
an offset is committed when a majority of the voters has it durably and its record is of this term
(paper, 5.4.2); a membership is changed when the one before and a record of this term are committed
(the correction to the dissertation's 4.1).
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import CorruptLog
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import AppendAnswer, CampaignRequest, ResetRequest
from penstock.raft.progress import Progress
from penstock.raft.state import NodeState


@dataclass(frozen=True, slots=True)
class Sending:
    """Read the log from here, no further than to the end, and send it to the node;
    `Leadership.sent` tells how much it was. It may be nothing: then it is a question."""

    node: Node
    previous_offset: int
    previous_term: int
    end_offset: int


class Leadership:
    """One node's, in one term."""

    __slots__ = ("_state", "_transfer_by_ms", "followers", "transfer_to")

    def __init__(self, state: NodeState, now_ms: int) -> None:
        self._state = state
        self.followers: dict[Node, Progress] = {}
        # Who is to lead next, and until when that is tried. Nothing may be proposed meanwhile.
        self.transfer_to: Node | None = None
        self._transfer_by_ms = 0
        self.follow_membership(now_ms)

    def follow_membership(self, now_ms: int) -> None:
        """From now on these are to have the log, as far as it is there."""
        nodes = self._state.membership.nodes - {self._state.me}
        end_offset = self._state.terms.end_offset
        for node in self.followers.keys() - nodes:
            del self.followers[node]
        for progress in self.followers.values():
            if progress.next_offset > end_offset:
                progress.look_at(end_offset)
        for node in sorted(nodes - self.followers.keys()):
            self.followers[node] = Progress(end_offset, now_ms)

    # --- committing ------------------------------------------------------------------------------

    @property
    def majority(self) -> int:
        return self._state.membership.majority

    def replicated_offset(self, copies: int) -> int:
        """The end of what so many voters have durably, this node among them."""
        state = self._state
        matches = sorted(
            state.durable_offset if node == state.me else self.followers[node].match_offset
            for node in state.membership.voters
        )
        return matches[-copies] if copies <= len(matches) else 0

    def commit(self) -> None:
        """Take for committed what a majority has, if it is of this term."""
        state = self._state
        offset = self.replicated_offset(state.membership.majority)
        if offset > state.commit_offset and state.terms.term_before(offset) == state.term:
            state.commit(offset)

    @property
    def is_noop_due(self) -> bool:
        """Whether this node must write a record of its own: until one of its term is committed, it
        does not know what is (paper, 8)."""
        return self._state.terms.last_term != self._state.term

    @property
    def has_left(self) -> bool:
        """Dissertation, 4.2.2: it leads until its own departure is committed."""
        state = self._state
        latest = state.members.latest
        return state.me not in latest.membership.voters and latest.offset < state.commit_offset

    def has_quorum(self, since_ms: int) -> bool:
        """Whether a majority of the voters was heard of since then; this node always is."""
        state = self._state
        voters = state.membership.voters
        alive = sum(
            node == state.me or self.followers[node].heard_ms >= since_ms for node in voters
        )
        return alive >= state.membership.majority

    def is_in_sync(self, node: Node, since_ms: int) -> bool:
        """Whether the follower had everything at some time since then, as far as is known."""
        progress = self.followers[node]
        has_all = progress.match_offset == self._state.terms.end_offset
        last_ms = progress.heard_ms if has_all else progress.caught_up_ms
        return last_ms >= since_ms

    def restarted(self, node: Node, now_ms: int) -> None:
        """What was known of the follower may be void: its disk may have kept less than it said."""
        self.followers[node] = Progress(self._state.terms.end_offset, now_ms)

    # --- sending ---------------------------------------------------------------------------------

    def sendings(self, now_ms: int) -> list[Sending]:
        """What to read and send now; each is told by `sent`. A request that got no answer in time
        is taken for lost."""
        terms = self._state.terms
        end_offset = self._state.sendable_offset
        due = []
        for node, progress in self.followers.items():
            waited_ms = now_ms - progress.asked_ms
            if progress.is_waiting and waited_ms >= self._state.timing.retry_ms:
                progress.start_over()
            if not progress.may_send(end_offset):
                continue
            if progress.next_offset < terms.start_offset:
                self._reset(node, progress, now_ms)
            else:
                term = terms.term_before(progress.next_offset)
                due.append(Sending(node, progress.next_offset, term, end_offset))
        return due

    def sent(self, node: Node, end_offset: int, now_ms: int) -> None:
        """A request with everything up to the offset is on its way."""
        self.followers[node].sent(end_offset, now_ms)

    def _reset(self, node: Node, progress: Progress, now_ms: int) -> None:
        state = self._state
        progress.reset(state.terms.start_offset, now_ms)
        request = ResetRequest(
            term=state.term,
            start_offset=state.terms.start_offset,
            start_term=state.terms.start_term,
            membership=state.members.known[0].membership,
        )
        state.send(node, request)

    def answered(self, node: Node, answer: AppendAnswer, now_ms: int) -> None:
        """A follower of this term says how far it is."""
        progress = self.followers.get(node)
        if progress is None:
            return
        progress.heard_ms = now_ms
        if answer.is_matching:
            self._matched(node, progress, answer.end_offset, now_ms)
        elif progress.is_asked(answer.asked_offset):
            self._diverged(node, progress, answer, now_ms)

    def _matched(self, node: Node, progress: Progress, end_offset: int, now_ms: int) -> None:
        state = self._state
        if end_offset > state.terms.end_offset:
            raise CorruptLog(
                f"Replica {node} says it has everything before {end_offset} of a log that ends at "
                f"{state.terms.end_offset}."
            )
        if progress.matched(end_offset):
            self.commit()
        progress.compare(state.terms.end_offset, now_ms)
        if end_offset == state.terms.end_offset and node == self.transfer_to:
            state.send(node, CampaignRequest(term=state.term))

    def _diverged(self, node: Node, progress: Progress, answer: AppendAnswer, now_ms: int) -> None:
        """Its log is another one at the position asked for: look further back."""
        terms = self._state.terms
        if answer.asked_offset <= terms.start_offset:
            self._reset(node, progress, now_ms)
            return
        ours = terms.last_place_of(answer.last_term)
        if ours.term == answer.last_term:
            progress.look_at(min(ours.offset, answer.end_offset))
        else:
            # Its end need not be the end of a batch here: ask for what is one.
            progress.look_at(ours.offset)

    # --- who leads, who follows ------------------------------------------------------------------

    def may_change(self, membership: Membership) -> bool:
        """Whether this membership may be written now. It takes effect when it is."""
        state = self._state
        return (
            state.membership.is_step_to(membership)
            and state.members.latest.offset < state.commit_offset
            and state.terms.term_before(state.commit_offset) == state.term
        )

    def transfer(self, node: Node, now_ms: int) -> bool:
        """Dissertation, 3.10: let a voter lead instead, as soon as it has everything."""
        state = self._state
        if node not in self.followers or node not in state.membership.voters:
            return False
        self.transfer_to = node
        self._transfer_by_ms = now_ms + state.timing.election_ms
        if self.followers[node].match_offset == state.terms.end_offset:
            state.send(node, CampaignRequest(term=state.term))
        return True

    def give_up_transfer(self, now_ms: int) -> None:
        """Go on leading if the other has not taken over in time."""
        if self.transfer_to is not None and now_ms >= self._transfer_by_ms:
            self.transfer_to = None

    def deadline_ms(self, now_ms: int) -> int:
        """When to look again whether there is a majority, and whether a transfer has failed."""
        by_ms = now_ms + self._state.timing.election_ms
        return by_ms if self.transfer_to is None else min(by_ms, self._transfer_by_ms)
