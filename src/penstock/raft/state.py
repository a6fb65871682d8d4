"""What a node of a consensus keeps whatever part it plays: its term and vote, its log's terms and
memberships, how far that log is durable and committed, and what it has to say.

Not the parts (following, campaign, leadership). The invariants: `term` and `commit_offset` never go
back; one vote a term; nothing before `commit_offset` is cut; `saved` tells at least of what is in
the log. For the last of these the owner does things in this order: cut the log durably, tell
`truncated`, tell `written`, save, and only then write the bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.raft.membership import Membership, MembershipAt, MembershipHistory, Node
from penstock.raft.messages import BatchPlace, Message
from penstock.raft.terms import TermHistory, TermStart


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """All nodes of a log must have the same."""

    election_ms: int
    """A leader that was not heard of for so long may be replaced, and one that heard of no
    majority steps down."""
    retry_ms: int
    """A request without an answer for so long is sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedState:
    """What must be durable before anybody is told anything that follows from it."""

    term: int
    vote: Node | None
    terms: tuple[TermStart, ...]
    memberships: tuple[MembershipAt, ...]
    reset_offset: int = 0
    """Where the log was last begun anew. One that is found to start before it was not emptied
    before the crash, and is to be, before anything else."""
    rejoin_offset: int = 0
    """Up to where a copy that was let go knew the log to be committed. The one that is made anew in
    its place neither campaigns nor votes before it has as much: the memberships of its own past,
    which it meets on the way, are over; and whoever still counts on it in one of those counts on
    what it had."""


class NodeState:
    """One node's, for one log."""

    __slots__ = (
        "commit_offset",
        "durable_offset",
        "is_unsaved",
        "me",
        "members",
        "outbox",
        "rejoin_offset",
        "reset_offset",
        "term",
        "terms",
        "timing",
        "verified",
        "vote",
    )

    def __init__(self, me: Node, saved: SavedState, terms: TermHistory, timing: Timing) -> None:
        """terms: of the log as it was found, all of it durable."""
        self.me = me
        self.term = saved.term
        self.vote = saved.vote
        self.terms = terms
        self.members = MembershipHistory(saved.memberships, terms.end_offset)
        self.timing = timing
        # Everything before it is committed, and was never and will never be anything else.
        self.commit_offset = terms.start_offset
        self.durable_offset = terms.end_offset
        # A term, and up to where the log was seen to be its leader's.
        self.verified = (-1, 0)
        self.reset_offset = saved.reset_offset
        self.rejoin_offset = saved.rejoin_offset
        assert terms.start_offset >= self.reset_offset, (terms, self.reset_offset)
        # What was saved and, because of a crash, never written must not be believed next time.
        told = [*(at.offset for at in saved.memberships), *(at.offset for at in saved.terms)]
        self.is_unsaved = max(told) >= terms.end_offset
        self.outbox: list[tuple[Node, Message]] = []

    @property
    def membership(self) -> Membership:
        return self.members.latest.membership

    @property
    def is_alone(self) -> bool:
        """Whether nobody else's vote counts."""
        return self.membership.voters == {self.me}

    @property
    def may_campaign(self) -> bool:
        """Dissertation, 4.2.2: also a voter that is to leave, until that is committed. It may be
        the only one whose log is long enough, though its own vote does not count. Not one that
        was let go and has yet to learn what it knew."""
        return self.is_whole and any(self.me in at.membership.voters for at in self.members.known)

    @property
    def is_whole(self) -> bool:
        """Whether it has what a copy in its place once had."""
        return self.terms.end_offset >= self.rejoin_offset

    @property
    def is_term_its_own(self) -> bool:
        """Whether nobody but this node can have led in its term, or ever will: it was alone when
        it voted for itself. Then it may lead again without another term."""
        is_older = self.members.latest.term < self.term
        return self.is_alone and self.vote == self.me and is_older

    @property
    def sendable_offset(self) -> int:
        """Nothing beyond it may leave this node. A node that is alone may lead in its term again
        after a crash, and write something else where it has forgotten what it wrote."""
        alone = {self.me}
        was_alone = any(at.membership.voters == alone for at in self.members.known)
        return self.durable_offset if was_alone else self.terms.end_offset

    @property
    def saved(self) -> SavedState:
        return SavedState(
            term=self.term,
            vote=self.vote,
            terms=self.terms.begun,
            memberships=self.members.known,
            reset_offset=self.reset_offset,
            rejoin_offset=self.rejoin_offset,
        )

    def enter_term(self, term: int, vote: Node | None = None) -> None:
        assert term > self.term, (term, self.term)
        self.term = term
        self.vote = vote
        self.is_unsaved = True

    def send(self, node: Node, message: Message) -> None:
        self.outbox.append((node, message))

    def commit(self, offset: int) -> None:
        """Everything before the offset is committed, if it was not known yet."""
        if offset > self.commit_offset:
            self.commit_offset = offset
            self._settle()

    def _settle(self) -> None:
        # What is committed by others' copies may still be lost here, and with it a membership.
        settled_offset = min(self.commit_offset, self.durable_offset)
        self.members.settle(settled_offset)
        if 0 < self.rejoin_offset <= settled_offset and self.me in self.membership.voters:
            # It is a copy like any other again, also if a crash should take some of its log.
            self.rejoin_offset = 0
            self.is_unsaved = True

    # --- the log ---------------------------------------------------------------------------------

    def truncated(self, offset: int) -> None:
        """The log was cut there, durably."""
        assert offset >= self.commit_offset, (offset, self.commit_offset)
        self.terms.truncate(offset)
        self.durable_offset = min(self.durable_offset, offset)
        self.members.truncate(offset)
        self.is_unsaved = True

    def written(self, batches: Sequence[BatchPlace]) -> None:
        """These are at the log's end from now on; not necessarily durably."""
        for batch in batches:
            assert batch.base_offset == self.terms.end_offset, (batch, self.terms)
            if self.terms.extend(batch.term, batch.end_offset):
                self.is_unsaved = True
            if batch.membership is not None:
                self.members.add(MembershipAt(batch.base_offset, batch.term, batch.membership))
                self.is_unsaved = True

    def durable(self, offset: int) -> None:
        """Everything in the log before the offset is durable, and so is `saved`. A flush that
        began before the log was cut says nothing of what was written after."""
        self.durable_offset = max(self.durable_offset, min(offset, self.terms.end_offset))
        self._settle()

    def dropped_before(self, offset: int) -> None:
        """The log starts there from now on: retention."""
        assert offset <= min(self.commit_offset, self.durable_offset), (offset, self.terms)
        self.terms.drop_before(offset)

    def reset(self, offset: int, term: int, membership: Membership) -> None:
        """The log is empty from now on, and starts there after a record of that term: to be saved
        before it is emptied, since afterwards nobody would know what came before."""
        assert offset > self.commit_offset, (offset, self.commit_offset)
        # No earlier than the membership can have been written, in a term no earlier.
        base = MembershipAt(offset - 1, self.term, membership)
        self.terms = TermHistory(offset, term)
        self.members = MembershipHistory((base,), offset)
        self.commit_offset = self.durable_offset = self.reset_offset = offset
        self.is_unsaved = True
