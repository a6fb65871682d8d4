"""What the copies of one log say to each other. Who says it, and to whom, is on the envelope.

Every message has the term of who sends it. The bytes of batches are not here: `AppendRequest` has
their places, and whoever carries it has the bytes beside it, in the same order. Messages come from
outside: `check` raises what no leader says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from penstock.model.errors import CorruptLog
from penstock.raft.membership import Membership


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """A batch of a log: indivisible, of one term."""

    base_offset: int
    end_offset: int
    term: int
    membership: Membership | None = None
    """If it is the record of a membership."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest:
    """A candidate's log ends at this position: vote for me (paper, 5.2 and 5.4.1)."""

    term: int
    last_term: int
    end_offset: int
    is_trial: bool
    """Pre-vote (dissertation, 9.6): would you? The term is the one that would be campaigned in."""
    is_transfer: bool = False
    """The leader asked for it: that it is alive is no reason to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer:
    term: int
    is_trial: bool
    is_granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRequest:
    """The leader's batches after a position, and how far all is committed. Without batches: a
    heartbeat, or the question whether the position is there."""

    term: int
    previous_term: int
    previous_offset: int
    """Where the first batch begins, and the term of the record before it."""
    commit_offset: int
    batches: tuple[BatchPlace, ...] = ()

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else self.previous_offset

    def check(self) -> None:
        """Batches follow each other without a gap, none is empty, and terms never fall."""
        offset, term = self.previous_offset, self.previous_term
        is_right = offset >= 0 and 0 <= term <= self.term
        for batch in self.batches:
            is_right = (
                is_right
                and batch.base_offset == offset < batch.end_offset
                and term <= batch.term <= self.term
                and (batch.membership is None or batch.membership.is_sound)
            )
            offset, term = batch.end_offset, batch.term
        if not is_right:
            raise CorruptLog(f"The leader of term {self.term} sent what is no log: {self}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAnswer:
    """What of the leader's log is durable here; or, if the position asked for is not, where to
    look next."""

    term: int
    is_matching: bool
    end_offset: int
    """Matching: durable up to here. Not matching: the end of `last_term` in this log."""
    last_term: int = 0
    """Not matching: the largest term here that is not larger than the one asked for."""
    asked_offset: int = -1
    """Not matching: the position asked for, so that an old answer is known as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """You lack what I no longer have: begin anew where my log starts."""

    term: int
    start_offset: int
    start_term: int
    membership: Membership
    """One that is committed; later ones are in the log."""

    def check(self) -> None:
        """A log starts after something that was written and committed."""
        if not (
            self.start_offset >= 0 <= self.start_term <= self.term and self.membership.is_sound
        ):
            raise CorruptLog(f"The leader of term {self.term} sent what is no start: {self}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRequest:
    """Leadership transfer (dissertation, 3.10): campaign at once."""

    term: int


Message: TypeAlias = (
    VoteRequest | VoteAnswer | AppendRequest | AppendAnswer | ResetRequest | CampaignRequest
)
