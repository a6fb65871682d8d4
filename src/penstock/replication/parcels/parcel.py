"""What one broker tells another in one message: letters of many partitions, and that it is alive.

Not its encoding (`replication.parcels.wire`), and not who sends it when
(`replication.peers.replicas`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.ids import PartitionId
from penstock.raft.membership import Membership, Node
from penstock.raft.messages import Message


class Letter(NamedTuple):
    """A message of one copy of a partition to another. A tuple: there are many."""

    partition: PartitionId
    message: Message
    payload: bytes | memoryview
    """The batches of an AppendRequest, end to end; they are the request's only batches. What a
    ResetRequest brings along: see `Replica.snapshot`."""


class Claim(NamedTuple):
    """What a broker says of a partition that it leads. A tuple: there is one for every turn."""

    term: int
    commit_offset: int
    start_offset: int
    """Before it the records were deleted, by retention or on request."""
    membership: Membership
    """Who has a copy, or is to have one. The others need not know of each commit."""
    is_settled: bool
    """Whether the membership is committed, and so cannot be taken back."""
    in_sync: frozenset[Node]
    """Of the voters: those who have everything, or had it lately."""

    def concerns_all(self, before: Claim) -> bool:
        """Whether more has changed than how far all is committed, or deleted."""
        return self.term != before.term or self[3:] != before[3:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """I am alive, and lead these; see `replication.peers.claims`."""

    incarnation: int
    version: int
    is_whole: bool
    needs_whole: bool
    claims: dict[PartitionId, Claim]
    released: tuple[PartitionId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """From one node to another: a broker that lost its folder is not the one that was meant."""

    sender: Node
    receiver: Node
    letters: tuple[Letter, ...] = ()
    heartbeat: Heartbeat | None = None
    cluster_id: str = ""
    """Of the sender; empty if it does not know it."""
