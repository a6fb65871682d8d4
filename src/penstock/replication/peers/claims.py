"""Who leads what, told from broker to broker: a list of claims in each direction, kept by changes.

A heartbeat has only what changed since the one before, so an idle partition costs nothing. They
are numbered: whoever misses one asks for the whole list, and believes nothing of it until it came.
Not when heartbeats are sent, and not what follows from them. The invariant: what a listener takes
for claimed was claimed by the heartbeat that it heard last.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from penstock.model.ids import PartitionId
from penstock.raft.membership import Node
from penstock.replication.parcels.parcel import Claim, Heartbeat

# Of so many partitions it is kept what concerns everybody, although all may have been told: to look
# takes long where brokers are many.
_NEWS_KEPT_MIN: Final = 1_000


class _Audience:
    """What one peer was told."""

    __slots__ = ("changed", "is_whole_due", "news_told", "version")

    def __init__(self, version: int, news_told: int) -> None:
        self.version = version
        self.is_whole_due = True
        # What concerns everybody: up to which change it was told.
        self.news_told = news_told
        # What concerns those who have a copy.
        self.changed: set[PartitionId] = set()


class OwnClaims:
    """What this broker leads, and what of it each peer has yet to be told."""

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self._claims: dict[PartitionId, Claim] = {}
        self._audiences: dict[Node, _Audience] = {}
        # What concerns everybody is noted once, however many they are: by the number of its last
        # change, the latest last. Each audience reads on from where it was.
        self._news: OrderedDict[PartitionId, int] = OrderedDict()
        self._changes = 0
        self._news_kept_max = _NEWS_KEPT_MIN
        # The largest that any peer was told: one that was out of reach remembers its last.
        self._version = 0

    def __getitem__(self, partition: PartitionId) -> Claim | None:
        return self._claims.get(partition)

    @property
    def peers(self) -> list[Node]:
        return list(self._audiences)

    def add_peer(self, node: Node) -> None:
        """It is to be told everything: it is new, or was out of reach."""
        self._audiences[node] = _Audience(self._version, self._changes)

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
        if claim is None or before is None or claim.concerns_all(before):
            self._changes += 1
            self._news[partition] = self._changes
            self._news.move_to_end(partition)
            if len(self._news) > self._news_kept_max:
                self._forget_old_news()
        else:
            for node in claim.membership.nodes:
                if (audience := self._audiences.get(node)) is not None:
                    audience.changed.add(partition)

    def _forget_old_news(self) -> None:
        """What everybody was told. Seldom: before the next time, what is left may double."""
        told = [audience.news_told for audience in self._audiences.values()]
        news, told_all = self._news, min(told, default=self._changes)
        while news and next(iter(news.values())) <= told_all:
            news.popitem(last=False)
        self._news_kept_max = max(2 * len(news), _NEWS_KEPT_MIN)

    def heartbeat(self, node: Node, *, needs_whole: bool) -> Heartbeat:
        """The next one to the peer."""
        audience = self._audiences[node]
        audience.version += 1
        self._version = max(self._version, audience.version)
        is_whole = audience.is_whole_due
        for partition, change in reversed(self._news.items()):
            if change <= audience.news_told:
                break
            audience.changed.add(partition)
        audience.news_told = self._changes
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
