"""What one broker tells another in one message: letters of many partitions, and that it is alive.

Not its encoding (`replication.wire`), and not who sends it when (`replication.replicas`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.raft.messages import Message


class Letter(NamedTuple):
    """A message of one copy of a partition to another. A tuple: there are many."""

    partition: PartitionId
    message: Message
    payload: bytes | memoryview
    """The batches of an AppendRequest, end to end; they are the request's only batches."""


class Told(NamedTuple):
    """What a broker says of a partition that it leads."""

    term: int
    commit_offset: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """I am alive, and lead these; see `replication.claims`."""

    incarnation: int
    version: int
    is_whole: bool
    needs_whole: bool
    claims: dict[PartitionId, Told]
    released: tuple[PartitionId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """From one node to another: a broker that lost its folder is not the one that was meant."""

    sender: Node
    receiver: Node
    letters: tuple[Letter, ...] = ()
    heartbeat: Heartbeat | None = None
