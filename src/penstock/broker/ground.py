"""What a broker has before it knows of anybody, and what it is found by while it is starting.

Not what stands on it (`broker.context`). The invariant: what is here serves other brokers, which
must be heard for this one to become ready; nothing of it needs a registry.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from penstock.broker.clients.clients import Clients
from penstock.broker.config import BrokerConfig
from penstock.broker.data_folder import Meta
from penstock.model.errors import Busy, PenstockError, UnknownCall
from penstock.net.clock import Clock
from penstock.raft.membership import Node
from penstock.replication.disk.driver import Driver
from penstock.replication.disk.flusher import Flusher
from penstock.replication.disk.refusals import Refusals
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.replica.transport import TIMING, Peers, Surroundings
from penstock.storage.files.files import Directory

if TYPE_CHECKING:
    from penstock.registry.metaserver.server import MetaServer

STARTING: Final = "The broker is starting: try again in a moment."


class Receiver(Protocol):
    """Who takes parcels: it leaves alone what is not for it."""

    def receive(self, parcel: Parcel) -> None: ...


@dataclass(slots=True, kw_only=True)
class Ground:
    """One per broker. What follows `clients` comes while it starts."""

    config: BrokerConfig
    data: Directory
    meta: Meta
    place: int
    """Where the data folder is, other than any copy of it."""
    driver: Driver
    flusher: Flusher
    clock: Clock
    clients: Clients
    cluster_id: str = ""
    """Empty as long as it is not known."""
    receivers: list[Receiver] = field(default_factory=list)
    """Of what other brokers' copies say: this broker's replicas, and its meta server's."""
    meta_server: MetaServer | None = None
    is_ready: bool = False

    @property
    def me(self) -> Node:
        return Node(self.meta.broker_id, self.meta.directory_id)

    def nobody_for(self, call: str) -> PenstockError:
        """What answers a call of another broker that is for a part which is not here, or not
        yet."""
        if self.is_ready:
            return UnknownCall(f"This broker does not answer {call}.")
        return Busy(STARTING)

    def surroundings(self, peers: Peers) -> Surroundings:
        return Surroundings(
            me=self.me,
            driver=self.driver,
            flusher=self.flusher,
            clock=self.clock,
            peers=peers,
            timing=TIMING,
            disk=Refusals(f"The disk of {self.data.path}"),
            # With every message of a leader: ten times as fast as a secret, which it is not.
            draw_delay_ms=lambda: random.randrange(TIMING.election_ms),  # noqa: S311
        )
