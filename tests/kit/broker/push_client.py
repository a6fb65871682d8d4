"""A client that is pushed to, frame by frame: answers what and when a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from penstock.broker.broker import Broker
from penstock.model.errors import PenstockError
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse
from penstock.records import decode_messages


class Delivery(NamedTuple):
    message_id: int
    request: pb.DeliverRequest
    payload: bytes

    @property
    def values(self) -> list[bytes | None]:
        return [message.value for message in decode_messages(self.payload, "", 0, 0)]


class PushedClient:
    """Takes note of everything; answers deliveries at once unless `is_silent`."""

    channel: Channel

    def __init__(self) -> None:
        self.is_silent = False
        self.now_ms = 0
        self.refuses_with: PenstockError | None = None
        self.deliveries: list[Delivery] = []
        self.endings: list[pb.PushEndedRequest] = []

    def serve(
        self, channel: Channel, number: int, message_id: int, envelope: memoryview, data: memoryview
    ) -> None:
        if number == pb.CALL_PUSH_ENDED:
            self.endings.append(parse(pb.PushEndedRequest, envelope))
            channel.answer(message_id, number, b"")
            return
        assert number == pb.CALL_DELIVER
        request = parse(pb.DeliverRequest, envelope)
        self.deliveries.append(Delivery(message_id, request, bytes(data)))
        if self.refuses_with is not None:
            raise self.refuses_with
        if self.is_silent:
            channel.leave_unanswered()
        else:
            answer = pb.DeliverResponse(now_ms=self.now_ms)
            channel.answer(message_id, number, answer.SerializeToString())

    async def open(
        self,
        topic: str = "orders",
        *,
        stream: int = 1,
        partition: int = 0,
        offset: int = 0,
        messages: int = 1000,
        size_bytes: int = 1 << 20,
        group: str = "billing",
        member_id: str = "me",
        shared: bool = False,
        wanted: pb.Filter | None = None,
    ) -> None:
        request = pb.OpenPushRequest(
            stream=stream,
            topic=topic,
            partition=partition,
            offset=offset,
            credit_messages=messages,
            credit_bytes=size_bytes,
            group=group,
            member_id=member_id,
            shared=shared,
            filter=wanted,
        )
        await self.channel.call(calls.OPEN_PUSH, request)

    async def give(self, messages: int, size_bytes: int, stream: int = 1) -> None:
        """Give credit and hear of a refusal: the next call is answered after it."""
        request = pb.GiveCreditRequest(stream=stream, messages=messages, bytes=size_bytes)
        refusals: list[PenstockError | None] = []

        def answered(error: PenstockError | None, *_: memoryview) -> None:
            refusals.append(error)

        envelope = request.SerializeToString()
        given = self.channel.start_call(pb.CALL_GIVE_CREDIT, envelope, (), answered)
        await self.channel.call(calls.PING, pb.PingRequest())
        self.channel.cancel_call(given)
        for error in refusals:
            assert error is not None
            raise error

    async def resume(self, stream: int = 1, *, is_automatic: bool = False) -> None:
        request = pb.ResumePushRequest(stream=stream, is_automatic=is_automatic)
        await self.channel.call(calls.RESUME_PUSH, request)

    async def close_stream(self, stream: int = 1) -> None:
        await self.channel.call(calls.CLOSE_PUSH, pb.ClosePushRequest(stream=stream))

    async def hello(self, name: str = "billing-1") -> int:
        request = pb.HelloRequest(client_name=name, software="test 1")
        answer, _ = await self.channel.call(calls.HELLO, request)
        return answer.client

    async def clients(self) -> list[pb.ListClientsResponse.Client]:
        answer, _ = await self.channel.call(calls.LIST_CLIENTS, pb.ListClientsRequest())
        return list(answer.clients)

    async def steer(self, client: str, *, park: bool, group: str = "") -> int:
        request = pb.SteerClientRequest(client=client, park=park, group=group)
        answer, _ = await self.channel.call(calls.STEER_CLIENT, request)
        return answer.streams

    @property
    def values(self) -> list[bytes | None]:
        """Of all deliveries, those that came again counted once."""
        seen: dict[tuple[int, int], Delivery] = {}
        for delivery in self.deliveries:
            seen.setdefault((delivery.request.stream, delivery.request.delivery), delivery)
        return [value for delivery in seen.values() for value in delivery.values]

    @property
    def end_offset(self) -> int:
        """Up to where the last delivery says that it has everything."""
        return self.deliveries[-1].request.next_offset

    @property
    def numbers(self) -> list[int]:
        return [delivery.request.delivery for delivery in self.deliveries]


@contextlib.asynccontextmanager
async def pushed(broker: Broker | str) -> AsyncIterator[PushedClient]:
    """Another client of the broker, or of the one at this address."""
    address = broker if isinstance(broker, str) else broker.addresses[0]
    client = PushedClient()
    client.channel = await connect_channel(parse_address(address), client.serve)
    try:
        yield client
    finally:
        client.channel.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def settled(client: PushedClient) -> None:
    """Until the broker has dealt with all that was sent to it, and this side with its answers."""
    for _ in range(3):
        await client.channel.call(calls.PING, pb.PingRequest())
        await asyncio.sleep(0)
