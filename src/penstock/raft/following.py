"""A node that follows: it makes its log the leader's, and says how far it is.

Without a leader it waits for one. The invariants: what is acknowledged is durable here and was seen
to be the leader's (`_verified_offset`); a request that is late or came twice cuts nothing; what was
seen to be the leader's, and so what is committed, is never cut, whatever a leader says.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.errors import CorruptLog
from penstock.raft.membership import Node
from penstock.raft.messages import AppendAnswer, AppendRequest, BatchPlace, ResetRequest
from penstock.raft.state import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """Cut the log to `truncate_to`, if that is given, and write these of the request's batches."""

    truncate_to: int | None
    first: int
    batches: tuple[BatchPlace, ...]


class Following:
    """One leader, in one term."""

    __slots__ = ("_state", "_verified_offset", "heard_ms", "leader")

    def __init__(self, state: NodeState, leader: Node | None, now_ms: int) -> None:
        self._state = state
        self.leader = leader
        # When the leader was last heard of.
        self.heard_ms = now_ms
        # Up to here the log is known to be the leader's: what is committed is, in any case.
        self._verified_offset = state.commit_offset
        verified_term, verified_offset = state.verified
        if verified_term == state.term:
            # The same leader was followed before, and will not send again what it has an answer to.
            self._verified_offset = max(self._verified_offset, verified_offset)

    def plan_append(self, request: AppendRequest) -> AppendPlan | None:
        """What to do to the log so that it is the leader's; None if nothing is. To be followed by
        `NodeState.truncated` and `written` as it is done, and by `matched`."""
        assert self.leader is not None
        state = self._state
        offset = request.previous_offset
        if offset < state.terms.start_offset:
            # What came before the start was committed, so the logs agree up to it.
            self.acknowledge()
            return None
        is_there = offset <= state.terms.end_offset
        if is_there and state.terms.term_before(offset) == request.previous_term:
            return self._plan_batches(request.batches)
        self._check_cut(offset - 1)
        # Paper, 5.3, as KRaft does it: a term is skipped with each question, not a record.
        end_offset = min(state.terms.last_place_of(request.previous_term).offset, offset)
        answer = AppendAnswer(
            term=state.term,
            is_matching=False,
            end_offset=end_offset,
            last_term=state.terms.term_before(end_offset),
            asked_offset=offset,
        )
        state.send(self.leader, answer)
        return None

    def _plan_batches(self, batches: tuple[BatchPlace, ...]) -> AppendPlan:
        """Skip what is here already."""
        state = self._state
        terms = state.terms
        first = 0
        while first < len(batches) and self._has(batches[first]):
            first += 1
        if first == len(batches):
            return AppendPlan(truncate_to=None, first=first, batches=())
        cut = batches[first].base_offset
        if cut >= terms.end_offset:
            return AppendPlan(truncate_to=None, first=first, batches=batches[first:])
        self._check_cut(cut)
        return AppendPlan(truncate_to=cut, first=first, batches=batches[first:])

    def _has(self, batch: BatchPlace) -> bool:
        """Log matching (paper, 5.3): the same position is the end of the same batch."""
        terms = self._state.terms
        is_there = batch.end_offset <= terms.end_offset
        return is_there and terms.term_before(batch.end_offset) == batch.term

    def _check_cut(self, offset: int) -> None:
        """Leader completeness (paper, 5.4.3): no leader has anything else there."""
        if offset < self._verified_offset:
            raise CorruptLog(
                f"The leader {self.leader} of term {self._state.term} has another record at "
                f"offset {offset} than this replica, where everything before "
                f"{self._verified_offset} was its own or is committed."
            )

    def matched(self, request: AppendRequest) -> None:
        """All batches of the request, and all before them, are in the log."""
        state = self._state
        self._verify(request.end_offset)
        self.follow_commit(request.commit_offset)
        if state.durable_offset >= request.end_offset:
            self.acknowledge()

    def _verify(self, offset: int) -> None:
        self._verified_offset = max(self._verified_offset, offset)
        self._state.verified = (self._state.term, self._verified_offset)

    def follow_commit(self, offset: int) -> None:
        """The leader says how far all is committed; this log may not be so far."""
        self._state.commit(min(offset, self._verified_offset))

    def reset(self, request: ResetRequest) -> bool:
        """Whether the log must be emptied, to begin anew where the leader's starts. One that has
        that position is kept: a majority may count on what follows it."""
        state = self._state
        offset = request.start_offset
        is_there = state.terms.start_offset <= offset <= state.terms.end_offset
        is_needed = offset > self._verified_offset and not (
            is_there and state.terms.term_before(offset) == request.start_term
        )
        if is_needed:
            state.reset(offset, request.start_term, request.membership)
        self._verify(offset)
        # A log starts after what is committed.
        state.commit(offset)
        self.acknowledge()
        return is_needed

    def acknowledge(self) -> None:
        """Say what is durable here of the leader's log."""
        if self.leader is not None:
            state = self._state
            end_offset = min(self._verified_offset, state.durable_offset)
            answer = AppendAnswer(term=state.term, is_matching=True, end_offset=end_offset)
            state.send(self.leader, answer)
