"""When each broker was last heard of by the meta server that leads: who is silent for too long.

Pure: the time is told. It is the leader's alone and is forgotten with its leadership; the next one
gives everybody a full session. Not the expiring: that is a change, decided by the quorum. The
invariant: a broker is overdue only when nothing was heard of it for a session's time while this
server was there to hear it.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.raft.membership import Node


class Sessions:
    """Of one leadership."""

    def __init__(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self._heard_ms: dict[Node, int] = {}
        self._looked_ms = 0

    def begin(self, nodes: Iterable[Node], now_ms: int) -> None:
        """These are alive, as far as anybody knows."""
        self._heard_ms = dict.fromkeys(nodes, now_ms)
        self._looked_ms = now_ms

    def hear(self, node: Node, now_ms: int) -> None:
        self._heard_ms[node] = now_ms

    def forget(self, node: Node) -> None:
        self._heard_ms.pop(node, None)

    def overdue(self, now_ms: int) -> list[Node]:
        """Who was silent for too long, each once a session's time: the expiry may fail."""
        stood_still = now_ms - self._looked_ms > self.timeout_ms // 2
        self._looked_ms = now_ms
        if stood_still:
            # It is this server that did not listen: what they said is yet to be read.
            self.begin(self._heard_ms, now_ms)
            return []
        since_ms = now_ms - self.timeout_ms
        late = [node for node, heard_ms in self._heard_ms.items() if heard_ms <= since_ms]
        for node in late:
            self._heard_ms[node] = now_ms
        return late
