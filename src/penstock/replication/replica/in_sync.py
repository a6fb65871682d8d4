"""Which voters of a partition have everything, or had it so lately that they count (R-REP-3).

Raft knows when a follower was last seen to have all there was; the broker's peers, when they were
last heard. Both are asked, as seldom as does no harm. The invariant: where another leads there is
nobody in sync; whoever leads, and votes, is.
"""

from __future__ import annotations

from typing import Final

from penstock.model.limits import IN_SYNC_LAG_MS_MAX
from penstock.raft.core import Raft
from penstock.raft.leadership import Leadership
from penstock.raft.membership import Membership, Node
from penstock.replication.replica.transport import Surroundings

NOBODY: Final[frozenset[Node]] = frozenset()
# While all are in sync it is not looked more often whether they still are.
_LOOK_AGAIN_MS: Final = 200


class InSync:
    """Of one replica."""

    __slots__ = ("_around", "_leading", "_look_ms", "_membership", "_raft", "nodes")

    def __init__(self, raft: Raft, around: Surroundings) -> None:
        self._raft = raft
        self._around = around
        self.nodes = NOBODY
        # Of what it was last looked at, and until when that will do.
        self._leading: Leadership | None = None
        self._membership: Membership | None = None
        self._look_ms = 0

    def look(self, now_ms: int) -> None:
        """Called at the end of each turn."""
        leading, membership = self._raft.leading, self._raft.state.membership
        if leading is None:
            self.nodes = NOBODY
        elif (
            now_ms >= self._look_ms
            or leading is not self._leading
            or membership is not self._membership
            or len(self.nodes) < len(membership.voters)
        ):
            self._look_ms = now_ms + _LOOK_AGAIN_MS
            nodes = frozenset(
                node for node in membership.voters if self._has_all(leading, node, now_ms)
            )
            if nodes != self.nodes:
                self.nodes = nodes
        self._leading, self._membership = leading, membership

    def learned(self, now_ms: int) -> frozenset[Node]:
        """The learners that have everything, or had it a moment ago: they may vote."""
        leading, learners = self._raft.leading, self._raft.state.membership.learners
        if leading is None:
            return NOBODY
        lag_ms = 2 * self._around.timing.election_ms
        return frozenset(node for node in learners if self._has_all(leading, node, now_ms, lag_ms))

    def _has_all(
        self, leading: Leadership, node: Node, now_ms: int, lag_ms: int = IN_SYNC_LAG_MS_MAX
    ) -> bool:
        if node == self._around.me:
            return True
        heard_ms = max(leading.followers[node].heard_ms, self._around.peers.heard_ms(node))
        is_alive = heard_ms >= now_ms - self._around.timing.election_ms
        return is_alive and leading.is_in_sync(node, now_ms - lag_ms)
