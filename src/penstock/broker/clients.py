"""Who is connected by our own protocol: a record for each client (R-DEL-7).

Not what is delivered to it. The invariant: a record is here exactly as long as its connection is
open, so whoever finds one may call its client.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.broker.session import Session
from penstock.model.delivery_errors import UnknownClient
from penstock.net.clock import Clock


@dataclass(slots=True, eq=False)
class Client:
    """One connection."""

    id: int
    """Unique on this broker, and never used again while it runs."""
    session: Session
    name: str
    software: str
    connected_at_ms: int


class Clients:
    """One per broker. All calls come from the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: dict[int, Client] = {}
        # Not from 1: a reply for a client of this broker before its restart finds nobody.
        self._next_id = clock.now_ms() << 12

    def __iter__(self) -> Iterator[Client]:
        return iter(self._clients.values())

    def introduce(self, session: Session, name: str, software: str) -> Client:
        """A client says who it is; one that says it again is the same."""
        client = self._clients.get(session.client_id)
        if client is None:
            self._next_id += 1
            client = Client(self._next_id, session, name, software, self._clock.now_ms())
            self._clients[client.id] = client
            session.client_id = client.id
            session.on_close(client, lambda: self._lost(client))
        client.name, client.software = name, software
        return client

    def find(self, client_id: int) -> Client:
        client = self._clients.get(client_id)
        if client is None:
            raise UnknownClient(f"No client {client_id} is connected.")
        return client

    def _lost(self, client: Client) -> None:
        del self._clients[client.id]
