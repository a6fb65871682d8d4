"""The clients of this broker: listed, and what is delivered to them parked or let go on (R-DEL-7,
R-DEL-8)."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.broker.call import Call
from penstock.broker.clients.clients import Client, KafkaClient
from penstock.broker.context import Context
from penstock.broker.delivery.push.stream import PushStream
from penstock.coordination.delivery.push import (
    PARKED_BY_OPERATOR,
    ParkAsked,
    ResumeAsked,
    State,
)
from penstock.model.errors import InvalidRequest, UnknownClient
from penstock.model.limits import CLIENT_NAME_LENGTH_MAX, GROUP_NAME_LENGTH_MAX
from penstock.protocol import penstock_pb2 as pb


async def list_clients(
    context: Context, call: Call[pb.ListClientsRequest]
) -> pb.ListClientsResponse:
    del call
    response = pb.ListClientsResponse(broker=context.config.broker_id)
    for client in context.clients:
        streams = _streams(context, client)
        described = response.clients.add(
            id=client.id,
            name=client.name,
            software=client.software,
            address=client.connection.peer,
            state=_state(streams),
            connected_at_ms=client.connected_at_ms,
            heard_at_ms=context.clients.heard_at_ms(client),
            protocol=client.protocol,
            groups=context.clients.groups_of(client.session) if isinstance(client, Client) else (),
        )
        described.streams.extend(map(_described, streams))
    for lost in context.clients.lost:
        response.clients.add(
            id=lost.id,
            name=lost.name,
            software=lost.software,
            address=lost.address,
            state="lost",
            connected_at_ms=lost.connected_at_ms,
            heard_at_ms=lost.heard_at_ms,
            protocol=lost.protocol,
            reason=lost.reason,
            lost_at_ms=lost.lost_at_ms,
        )
    return response


async def steer_client(
    context: Context, call: Call[pb.SteerClientRequest]
) -> pb.SteerClientResponse:
    request = call.request
    parks = context.delivery.pushes.parks
    if request.only_remembers:
        if (
            len(request.client) > CLIENT_NAME_LENGTH_MAX
            or len(request.group) > GROUP_NAME_LENGTH_MAX
        ):
            raise InvalidRequest("No client or group has a name that is so long.")
        if request.park:
            parks.add(request.client, request.group)
        else:
            parks.remove(request.client, request.group)
        return pb.SteerClientResponse(name=request.client)
    found = [client for client in context.clients if _is_meant(client, request.client)]
    was_parked = False
    if not request.park:
        # First: a stream that is resumed may be opened anew.
        for name in {request.client, *(client.name for client in found)}:
            was_parked |= parks.remove(name, request.group)
    if not found and not was_parked:
        raise UnknownClient(f"No client {request.client!r} is connected to this broker.")
    count = 0
    groups: set[str] = set()
    for client in found:
        for stream in _streams(context, client):
            if request.group and stream.group != request.group:
                continue
            if request.park:
                parks.add(client.name, stream.group)
                stream.handle(ParkAsked(reason=PARKED_BY_OPERATOR))
            else:
                stream.handle(ResumeAsked(is_automatic=False))
            count += 1
            groups.add(stream.group)
    name = found[0].name if found else request.client
    return pb.SteerClientResponse(streams=count, name=name, groups=sorted(groups))


def _is_meant(client: Client | KafkaClient, name: str) -> bool:
    return name in (client.name, str(client.id))


def _streams(context: Context, client: Client | KafkaClient) -> list[PushStream]:
    return list(context.delivery.pushes.of(client.session)) if isinstance(client, Client) else []


def _state(streams: Iterable[PushStream]) -> str:
    """The worst of its streams'."""
    states = {stream.state for stream in streams}
    if State.PARKED in states:
        return "parked"
    if State.SLOW in states or State.TIMEOUT in states:
        return "slow"
    return "alive"


def _described(stream: PushStream) -> pb.ListClientsResponse.Stream:
    machine = stream.machine
    is_parked = stream.state is State.PARKED
    return pb.ListClientsResponse.Stream(
        group=stream.group,
        member_id=stream.member_id,
        topic=stream.name.topic,
        partition=stream.name.partition,
        shared=stream.is_shared,
        state=stream.state,
        in_flight=machine.in_flight_messages,
        credit=max(machine.credit_messages, 0),
        delivered=machine.delivered_messages,
        timeouts=machine.timeouts,
        reason=machine.reason,
        parked_at_ms=stream.parked_at_ms if is_parked else 0,
    )
