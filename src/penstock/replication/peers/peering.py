"""A broker among the others: its replicas, its links to the peers, and the timer for both.

Whoever makes it tells it who the others are and gives it the parcels that come. Not the handler
that takes them from the wire. The invariant: only parcels of the same cluster, from a broker that
is known, to this very node, reach the replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from penstock.model.errors import InvalidRequest
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.peers.links import PeerLinks
from penstock.replication.peers.replicas import TICK_MS, Replicas
from penstock.replication.replica.transport import TIMING

# Later than this, the loop was held up or the process was stopped.
_LATE_MS: Final = 100


class Peering:
    """One per broker. `start` and `stop` belong to the broker's life."""

    def __init__(
        self,
        me: Node,
        cluster_id: Callable[[], str],
        driver: Driver,
        clock: Clock,
        *,
        incarnation: int,
        tick_ms: int = TICK_MS,
    ) -> None:
        """cluster_id: empty as long as it is not known. incarnation: chosen by chance at each
        start."""
        self.me = me
        self._cluster_id = cluster_id
        self._clock = clock
        self.links = PeerLinks(me, cluster_id, on_up=self._on_up, on_down=self._on_down)
        self.replicas = Replicas(
            me,
            self.links,
            driver,
            incarnation=incarnation,
            now_ms=self._now_ms(),
            tick_ms=tick_ms,
        )
        self.replicas.on_earlier = self._arm
        self.replicas.is_crowded = self.links.is_crowded
        self._nodes: frozenset[Node] = frozenset()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._is_late = False

    def start(self) -> None:
        """Let time pass for the replicas."""
        self._loop = asyncio.get_running_loop()
        self._arm()

    async def stop(self) -> None:
        self._loop = None
        self._disarm()
        await self.links.close()

    def know(self, addresses: Mapping[Node, str]) -> None:
        """These are the other brokers from now on; this one may be among them."""
        nodes = frozenset(addresses) - {self.me}
        self.links.know(addresses)
        for node in self._nodes - nodes:
            self.replicas.forget_peer(node)
        self._nodes = nodes

    def receive(self, parcel: Parcel) -> None:
        """Take in what a peer sent; the end of the turn must follow. Payloads are not needed after
        it. What is meant for another node is left alone."""
        if parcel.receiver != self.me:
            # It is meant for a folder that is lost, or for another of this port.
            return
        cluster_id = self._cluster_id()
        if parcel.cluster_id and cluster_id and parcel.cluster_id != cluster_id:
            raise InvalidRequest(
                f"The parcel of {parcel.sender} is of cluster {parcel.cluster_id}, and this broker "
                f"belongs to {cluster_id}."
            )
        if parcel.sender not in self._nodes:
            raise InvalidRequest(f"Broker {parcel.sender} is not known here, or not any more.")
        self.links.hurry(parcel.sender)
        self.replicas.receive(parcel, self._now_ms())

    # --- peers -----------------------------------------------------------------------------------

    def _on_up(self, node: Node) -> None:
        self.replicas.add_peer(node)

    def _on_down(self, node: Node) -> None:
        self.replicas.remove_peer(node)
        self.replicas.suspect_peer(node, self._now_ms(), TIMING.election_ms)

    # --- time ------------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)

    def _arm(self) -> None:
        """Wake up when something is due, if that is earlier than planned."""
        if self._loop is None:
            return
        due_ms = self.replicas.next_due_ms
        if self._timer is not None:
            if due_ms >= self._armed_ms:
                return
            self._timer.cancel()
        self._armed_ms = due_ms
        delay_s = max(due_ms / 1000 - self._clock.monotonic(), 0)
        self._timer = self._loop.call_later(delay_s, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        if now_ms - self._armed_ms > _LATE_MS and not self._is_late:
            # What the peers said meanwhile waits in the sockets, and comes first: or everybody
            # would be taken for silent who was only not listened to.
            self._is_late = True
        else:
            self._is_late = False
            self.replicas.run_due(now_ms)
        self._arm()
