"""Who leads what, told from broker to broker: a list of claims in each direction, kept by changes.

A heartbeat has only what changed since the one before, so an idle partition costs nothing. They
are numbered: whoever misses one asks for the whole list, and believes nothing of it until it came.
Not when heartbeats are sent, and not what follows from them. The invariant: what a listener takes
for claimed was claimed by the heartbeat that it heard last.
"""

from __future__ import annotations

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.replication.parcel import Claim, Heartbeat


class _Audience:
    """What one peer was told."""

    __slots__ = ("changed", "is_whole_due", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        self.is_whole_due = True
        self.changed: set[PartitionId] = set()


class OwnClaims:
    """What this broker leads, and what of it each peer has yet to be told."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self._claims: dict[PartitionId, Claim] = {}
        self._audiences: dict[Node, _Audience] = {}
        # The largest that any peer was told: one that was out of reach remembers its last.
        self._version = 0

    def __getitem__(self, partition: PartitionId) -> Claim | None:
        return self._claims.get(partition)

    @property
    def peers(self) -> list[Node]:
        return list(self._audiences)

    def add_peer(self, node: Node) -> None:
        """It is to be told everything: it is new, or was out of reach."""
        self._audiences[node] = _Audience(self._version)

    def remove_peer(self, node: Node) -> None:
        self._audiences.pop(node, None)

    def repeat(self, node: Node) -> None:
        """The peer missed something."""
        if (audience := self._audiences.get(node)) is not None:
            audience.is_whole_due = True

    def note(self, partition: PartitionId, claim: Claim | None) -> None:
        before = self._claims.get(partition)
        if claim == before:
            return
        if claim is None:
            del self._claims[partition]
        else:
            self._claims[partition] = claim
        # Who leads and who follows concerns everybody; how far all is committed, those who have a
        # copy.
        is_for_all = claim is None or before is None or claim.concerns_all(before)
        for node, audience in self._audiences.items():
            if is_for_all or (claim is not None and node in claim.membership.nodes):
                audience.changed.add(partition)

    def heartbeat(self, node: Node, *, needs_whole: bool) -> Heartbeat:
        """The next one to the peer."""
        audience = self._audiences[node]
        audience.version += 1
        self._version = max(self._version, audience.version)
        is_whole = audience.is_whole_due
        # In an order that does not depend on how the process hashes.
        concerned = sorted(self._claims if is_whole else audience.changed)
        claims = {
            partition: claim
            for partition in concerned
            if (claim := self._claims.get(partition)) is not None
        }
        released = () if is_whole else tuple(sorted(audience.changed - self._claims.keys()))
        audience.changed = set()
        audience.is_whole_due = False
        return Heartbeat(
            incarnation=self.incarnation,
            version=audience.version,
            is_whole=is_whole,
            needs_whole=needs_whole,
            claims=claims,
            released=released,
        )


class HeardClaims:
    """What one peer says that it leads."""

    __slots__ = ("_incarnation", "_version", "alive_ms", "claims", "heard_ms", "needs_whole")

    def __init__(self) -> None:
        self._incarnation: int | None = None
        self._version = 0
        self.claims: dict[PartitionId, Claim] = {}
        # When anything was heard of it, and when its claims were last known to be these.
        self.alive_ms = -1
        self.heard_ms = -1
        self.needs_whole = False

    def is_restart(self, heartbeat: Heartbeat) -> bool:
        """Whether the peer was started anew since the heartbeat before; or may have been, since
        there was none before, but it may have answered as it was in an earlier life."""
        return self._incarnation != heartbeat.incarnation

    def take(self, heartbeat: Heartbeat, now_ms: int) -> dict[PartitionId, Claim]:
        """The claims that are new or have changed."""
        is_same = heartbeat.incarnation == self._incarnation
        if is_same and heartbeat.version <= self._version:
            # It was overtaken.
            return {}
        self.alive_ms = now_ms
        is_next = is_same and not self.needs_whole and heartbeat.version == self._version + 1
        self._incarnation = heartbeat.incarnation
        self._version = heartbeat.version
        if heartbeat.is_whole:
            self.claims = dict(heartbeat.claims)
        elif is_next:
            self.claims |= heartbeat.claims
            for partition in heartbeat.released:
                self.claims.pop(partition, None)
        else:
            self.needs_whole = True
            self.claims = {}
            return {}
        self.needs_whole = False
        self.heard_ms = now_ms
        return heartbeat.claims
