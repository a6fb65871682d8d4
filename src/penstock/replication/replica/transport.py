"""What a replica needs of the world around it: its peers, and what all replicas of a broker share.

Not the sockets, and not the encoding (`replication.parcels.wire`). The invariant that peers must
keep: a message arrives whole or not at all; it may be late, doubled, overtaken or lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from penstock.model.errors import PenstockError
from penstock.model.ids import PartitionId
from penstock.model.limits import APPEND_BYTES_MAX
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.raft.messages import Message
from penstock.raft.state import Timing
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher
from penstock.replication.disk.refusals import Refusals
from penstock.replication.parcels.parcel import Claim
from penstock.replication.replica.catch_up import CatchUpQuota

TIMING: Final = Timing(election_ms=800, retry_ms=400)


class Peers(Protocol):
    """Whoever carries a replica's messages, and looks after its time."""

    def send(self, node: Node, partition: PartitionId, message: Message, payload: bytes) -> None:
        """payload: the batches of an AppendRequest, end to end, or what a ResetRequest brings."""
        ...

    def note(self, partition: PartitionId, claim: Claim | None) -> None:
        """What the replica claims, if it leads: told after every turn in which it was not busy."""
        ...

    def schedule(self, partition: PartitionId, deadline_ms: int) -> None:
        """When the replica must be called at the latest: told after every turn, unless there is
        nothing to be called for."""
        ...

    def heard_ms(self, node: Node) -> int:
        """When the node's broker was last heard of; -1 if it never was."""
        ...

    def has_room(self, node: Node) -> bool:
        """Whether what is sent to the node leaves soon. What is not is still sent, or lost."""
        ...


class NoPeers:
    """The peers of a broker on its own: its replicas have nobody to talk to."""

    def send(self, node: Node, partition: PartitionId, message: Message, payload: bytes) -> None:
        """There is nobody to hear it."""

    def note(self, partition: PartitionId, claim: Claim | None) -> None:
        """There is nobody to tell."""

    def schedule(self, partition: PartitionId, deadline_ms: int) -> None:
        """Nobody calls it."""

    def heard_ms(self, node: Node) -> int:
        """There is nobody to be heard."""
        del node
        return -1

    def has_room(self, node: Node) -> bool:
        """There is nobody to wait for."""
        del node
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all replicas of a broker share."""

    me: Node
    driver: Driver
    flusher: Flusher
    clock: Clock
    peers: Peers
    timing: Timing
    draw_delay_ms: Callable[[], int]
    """By chance: what a replica waits longer than it must, before it campaigns."""
    catch_up: CatchUpQuota = field(default_factory=CatchUpQuota)
    """What copies that are far behind may take of this broker."""
    disk: Refusals = field(default_factory=Refusals)
    """What is told of the disk that all of them are on."""
    append_bytes_max: int = APPEND_BYTES_MAX
    """Of one request to a follower; a batch that is larger goes alone."""

    def disk_refuses(self) -> PenstockError | None:
        """What the disk refuses now, as far as writing has shown."""
        return self.disk.current(self.monotonic_ms())

    def monotonic_ms(self) -> int:
        return round(self.clock.monotonic() * 1000)
