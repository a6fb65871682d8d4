"""The clients of a cluster, for people and tools: listed, and their deliveries parked or resumed.

One question to every broker, no state: a client has a connection to each broker that it reads from,
and so a record there. The invariant: a broker that cannot be reached keeps nobody from the answers
of the others; it is named in what is answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from penstock.client.connection.parks import ask_all, remember_park
from penstock.client.connection.routes import Routes
from penstock.model.errors import PenstockError, UnknownClient
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import LIST_CLIENTS, STEER_CLIENT

ClientState = Literal["alive", "slow", "parked", "lost"]
StreamState = Literal["alive", "slow", "timeout", "parked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """What is pushed to a client of one partition."""

    group: str
    member_id: str
    topic: str
    partition: int
    shared: bool
    state: StreamState
    in_flight: int
    """Messages that were sent and not answered."""
    credit: int
    delivered: int
    timeouts: int
    reason: str
    """Why it is parked."""
    parked_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStatus:
    """One connection of a client to one broker."""

    broker: int
    id: int
    name: str
    software: str
    address: str
    protocol: str
    state: ClientState
    connected_at_ms: int
    heard_at_ms: int
    lost_at_ms: int | None
    reason: str
    """How it was lost."""
    streams: tuple[StreamStatus, ...]
    groups: tuple[str, ...] = ()
    """That it is a member of, by pull or push; told by the broker that looks after groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientList:
    clients: tuple[ClientStatus, ...]
    silent_brokers: tuple[int, ...]
    """Those that did not answer: their clients are missing."""


class ClientAdmin:
    """Made by `Client.clients`."""

    def __init__(self, routes: Routes) -> None:
        self._routes = routes

    async def list(self) -> ClientList:
        """Who is connected to the brokers, and who was lost in the last minutes."""
        answers = await ask_all(self._routes, LIST_CLIENTS, pb.ListClientsRequest())
        clients: list[ClientStatus] = []
        silent: list[int] = []
        for broker, answer in answers.items():
            if isinstance(answer, PenstockError):
                silent.append(broker)
            else:
                clients += [_client(broker, client) for client in answer.clients]
        clients.sort(key=lambda client: (client.name, client.broker, client.id))
        return ClientList(clients=tuple(clients), silent_brokers=tuple(sorted(silent)))

    async def park(self, client: str, group: str | None = None) -> int:
        """Stop what is pushed to a client, by its name or id, until it is resumed by `resume` or by
        the client's own call; returns how many streams that were. group: only of this one."""
        return await self._steer(pb.SteerClientRequest(client=client, park=True, group=group or ""))

    async def resume(self, client: str, group: str | None = None) -> int:
        """Let what is pushed to a client go on; returns how many streams were told."""
        request = pb.SteerClientRequest(client=client, park=False, group=group or "")
        return await self._steer(request)

    async def _steer(self, request: pb.SteerClientRequest) -> int:
        answers = await ask_all(self._routes, STEER_CLIENT, request)
        told = [answer for answer in answers.values() if not isinstance(answer, PenstockError)]
        if told:
            await self._have_remembered(request, told)
            return sum(answer.streams for answer in told)
        # Of those that failed, one that could not be asked says more than that nobody is there.
        errors = [answer for answer in answers.values() if isinstance(answer, PenstockError)]
        for error in errors:
            if not isinstance(error, UnknownClient):
                raise error
        raise UnknownClient(
            f"No client {request.client!r} is connected to any broker: see `penstock clients list`."
        )

    async def _have_remembered(
        self, request: pb.SteerClientRequest, told: Sequence[pb.SteerClientResponse]
    ) -> None:
        """By every broker: the client's partitions may be led by another one tomorrow."""
        for name in {answer.name for answer in told}:
            groups = {request.group}
            if request.park:
                groups = {group for one in told if one.name == name for group in one.groups}
            for group in groups:
                await remember_park(self._routes, name, group, park=request.park)


def _client(broker: int, client: pb.ListClientsResponse.Client) -> ClientStatus:
    return ClientStatus(
        broker=broker,
        id=client.id,
        name=client.name,
        software=client.software,
        address=client.address,
        protocol=client.protocol,
        state=cast(ClientState, client.state),
        connected_at_ms=client.connected_at_ms,
        heard_at_ms=client.heard_at_ms,
        lost_at_ms=client.lost_at_ms or None,
        reason=client.reason,
        streams=tuple(map(_stream, client.streams)),
        groups=tuple(client.groups),
    )


def _stream(stream: pb.ListClientsResponse.Stream) -> StreamStatus:
    return StreamStatus(
        group=stream.group,
        member_id=stream.member_id,
        topic=stream.topic,
        partition=stream.partition,
        shared=stream.shared,
        state=cast(StreamState, stream.state),
        in_flight=stream.in_flight,
        credit=stream.credit,
        delivered=stream.delivered,
        timeouts=stream.timeouts,
        reason=stream.reason,
        parked_at_ms=stream.parked_at_ms or None,
    )
