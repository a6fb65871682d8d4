"""A broker on a simulated disk, and members of a shared group who speak call by call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

from penstock.broker.broker import Broker
from penstock.model.errors import NotLeader, UnknownTopic
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Message, decode_messages
from tests.kit.broker.running import ManualClock, RawClient, running
from tests.kit.simulated_disk import SimulatedDisk

ACKNOWLEDGE = pb.SettleRequest.KIND_ACKNOWLEDGE
RELEASE = pb.SettleRequest.KIND_RELEASE
REJECT = pb.SettleRequest.KIND_REJECT
EXTEND = pb.SettleRequest.KIND_EXTEND
FAIL = pb.SettleRequest.KIND_FAIL

LEASE_MS = 10_000
Headers = Sequence[tuple[str, bytes | None]]


class Member:
    """Of group `g`, on a connection of its own."""

    def __init__(self, channel: Channel, name: str) -> None:
        self.channel = channel
        self.name = name

    async def join(self, **settings: Any) -> None:
        settings = {"lease_ms": LEASE_MS, "backoff_ms": 0} | settings
        request = pb.GroupHeartbeatRequest(
            group="g",
            member_id=self.name,
            shared=True,
            topics=["orders"],
            settings=pb.SharedSettings(**settings),
            is_full=True,
        )
        await self.channel.call(calls.GROUP_HEARTBEAT, request)

    async def lease(self, count: int = 100, **request: Any) -> list[Message]:
        return (await self.leased(count, **request))[1]

    async def leased(
        self, count: int = 100, **request: Any
    ) -> tuple[pb.LeaseResponse, list[Message]]:
        asked = pb.LeaseRequest(
            group="g", member_id=self.name, topic="orders", messages_max=count, bytes_max=1 << 20
        )
        # However long the write takes that goes before the first lease.
        asked.max_wait_ms = 20_000
        asked.MergeFrom(pb.LeaseRequest(**request))
        response, payload = await self.channel.call(calls.LEASE, asked)
        messages = decode_messages(payload, "orders", 0, 0)
        told = [offset for one in response.leases for offset in range(one.first, one.last + 1)]
        assert [message.offset for message in messages] == told
        return response, messages

    async def settle(
        self, first: int, last: int | None = None, kind: int = ACKNOWLEDGE, **how: Any
    ) -> int:
        """The code of the error, 0 if there is none."""
        response, _ = await self.channel.call(
            calls.SETTLE,
            pb.SettleRequest(
                group="g",
                member_id=self.name,
                topic="orders",
                ranges=[
                    pb.SettleRequest.Range(
                        first=first,
                        last=first if last is None else last,
                        kind=kind,  # type: ignore[arg-type]
                        **how,
                    )
                ],
            ),
        )
        (outcome,) = response.outcomes
        return outcome.code

    async def leave(self) -> None:
        """What it holds still is for others."""
        leaving = pb.SettleRequest(group="g", member_id=self.name, topic="orders", leaves=True)
        await self.channel.call(calls.SETTLE, leaving)


class Stage:
    """A running broker."""

    def __init__(self, broker: Broker, client: RawClient, clock: ManualClock) -> None:
        self.broker = broker
        self.client = client
        self.clock = clock
        self._members: list[Member] = []

    async def member(self, name: str, **settings: Any) -> Member:
        channel = await connect_channel(parse_address(self.broker.addresses[0]))
        member = Member(channel, name)
        self._members.append(member)
        await member.join(**settings)
        return member

    async def publish(
        self,
        count: int = 1,
        key: bytes | None = None,
        headers: Headers = (),
        codec: int = 0,
        timestamp_ms: int = 1_000,
    ) -> None:
        builder = BatchBuilder(1 << 20, codec)
        for number in range(count):
            builder.append(timestamp_ms, key, b"value %d" % number, headers)
        await self.client.produce("orders", bytearray(builder.build()))

    async def dead_letters(self) -> list[Message]:
        """When there are some."""
        while True:
            try:
                if found := await self.client.fetch("dead-letters.g"):
                    return found
            except (NotLeader, UnknownTopic):
                """Not yet."""
            await asyncio.sleep(0)

    def close(self) -> None:
        for member in self._members:
            member.channel.close()


@contextlib.asynccontextmanager
async def stage(
    disk: SimulatedDisk | None = None,
    clock: ManualClock | None = None,
    *,
    is_new: bool = True,
    **settings: Any,
) -> AsyncIterator[Stage]:
    clock = clock or ManualClock()
    root = None if disk is None else disk.root
    async with running(root, clock=clock, **settings) as (broker, client):
        if is_new:
            await client.create("orders")
        here = Stage(broker, client, clock)
        try:
            yield here
        finally:
            here.close()
