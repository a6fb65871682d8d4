"""Who is connected, and who was lost lately: a record for each client (R-DEL-7).

Not what is delivered to it. A client of our own protocol is known from its hello on, a Kafka client
from its request for versions on, which is its first. One is *lost* when its connection broke, when
it answered no ping, or when it went with push streams open or as a member of groups; who closes in
an orderly way is not.
The invariant: a record is here exactly as long as its connection is open, so whoever finds one may
call its client.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from penstock.broker.clients.session import Session
from penstock.model.errors import UnknownClient
from penstock.model.limits import CLIENT_LOST_MS_MAX, CLIENT_NAME_LENGTH_MAX, CLIENTS_LOST_MAX
from penstock.net.clock import Clock
from penstock.net.connection import Connection

Protocol = Literal["penstock", "kafka"]
_LEFT: Final = "It left without closing its push streams."
_LEFT_GROUPS: Final = "It went without leaving its groups."


@dataclass(slots=True, eq=False)
class KafkaClient:
    """One connection of a Kafka client."""

    id: int
    """Unique on this broker, and never used again while it runs."""
    connection: Connection
    name: str
    software: str
    connected_at_ms: int
    protocol: Protocol = "kafka"


@dataclass(slots=True, eq=False)
class Client:
    """One connection of a client of ours, or of another broker."""

    id: int
    """Unique on this broker, and never used again while it runs."""
    session: Session
    name: str
    software: str
    connected_at_ms: int
    protocol: Protocol = "penstock"

    @property
    def connection(self) -> Connection:
        return self.session.channel.connection


@dataclass(frozen=True, slots=True, kw_only=True)
class LostClient:
    """What is remembered of a client that went without a word."""

    id: int
    name: str
    software: str
    address: str
    protocol: Protocol
    connected_at_ms: int
    heard_at_ms: int
    lost_at_ms: int
    reason: str


class Clients:
    """One per broker. All calls come from the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.groups_of: Callable[[Session], Sequence[str]] = lambda _: ()
        """Which groups a client is in; known once the broker has begun to look after groups."""
        self._clients: dict[int, Client] = {}
        self._kafka_clients: dict[Connection, KafkaClient] = {}
        self._lost: deque[LostClient] = deque(maxlen=CLIENTS_LOST_MAX)
        # Not from 1: a reply for a client of this broker before its restart finds nobody.
        self._next_id = clock.now_ms() << 12

    def __iter__(self) -> Iterator[Client | KafkaClient]:
        yield from self._clients.values()
        yield from self._kafka_clients.values()

    @property
    def lost(self) -> list[LostClient]:
        """Those of the last minutes, the latest last."""
        since_ms = self._clock.now_ms() - CLIENT_LOST_MS_MAX
        while self._lost and self._lost[0].lost_at_ms < since_ms:
            self._lost.popleft()
        return list(self._lost)

    def introduce(self, session: Session, name: str, software: str) -> Client:
        """A client says who it is; one that says it again is the same."""
        client = self._clients.get(session.client_id)
        if client is None:
            client = Client(self._take_id(), session, name, software, self._clock.now_ms())
            self._clients[client.id] = client
            session.client_id = client.id
            session.on_close(client, lambda: self._ended(client))
        client.name, client.software = name, software
        return client

    def introduce_kafka(self, connection: Connection, name: str, software: str) -> KafkaClient:
        """The same of a Kafka client. Its session says when it is gone, by `kafka_gone`."""
        name, software = name[:CLIENT_NAME_LENGTH_MAX], software[:CLIENT_NAME_LENGTH_MAX]
        client = self._kafka_clients.get(connection)
        if client is None:
            now_ms = self._clock.now_ms()
            client = KafkaClient(self._take_id(), connection, name, software, now_ms)
            self._kafka_clients[connection] = client
        client.name, client.software = name, software
        return client

    def kafka_gone(self, connection: Connection) -> None:
        client = self._kafka_clients.pop(connection)
        if connection.error is not None:
            self._remember(client, connection.error.message)

    def find(self, client_id: int) -> Client:
        client = self._clients.get(client_id)
        if client is None:
            raise UnknownClient(f"No client {client_id} is connected.")
        return client

    def name_of(self, session: Session) -> str:
        """What the client of the session calls itself; nothing, if it has not said."""
        client = self._clients.get(session.client_id)
        return "" if client is None else client.name

    def heard_at_ms(self, client: Client | KafkaClient) -> int:
        """When the last bytes of it came."""
        silent_s = asyncio.get_running_loop().time() - client.connection.heard_at_s
        return self._clock.now_ms() - round(silent_s * 1000)

    def _take_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _ended(self, client: Client) -> None:
        del self._clients[client.id]
        error = client.connection.error
        if error is not None:
            self._remember(client, error.message)
        elif client.session.push_stream_count:
            self._remember(client, _LEFT)
        elif self.groups_of(client.session):
            self._remember(client, _LEFT_GROUPS)

    def _remember(self, client: Client | KafkaClient, reason: str) -> None:
        self._lost.append(
            LostClient(
                id=client.id,
                name=client.name,
                software=client.software,
                address=client.connection.peer,
                protocol=client.protocol,
                connected_at_ms=client.connected_at_ms,
                heard_at_ms=self.heard_at_ms(client),
                lost_at_ms=self._clock.now_ms(),
                reason=reason,
            )
        )
