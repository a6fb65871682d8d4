"""A question of this broker to whoever looks after the groups, which may be itself.

Not the answer (`questions`). The invariant: what the coordinator refuses, and that it cannot be
reached, is raised as it would be to a client.
"""

from __future__ import annotations

from collections.abc import Awaitable

from penstock.broker.carrier.parts import Channels
from penstock.broker.groups.questions import Questions
from penstock.broker.partitions.leaders import Leaders
from penstock.coordination.group.records import OFFSETS_TOPIC
from penstock.model.errors import NotCoordinator
from penstock.model.ids import BrokerId
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    CHECK_CLAIM,
    READ_SHARE,
    WRITE_SHARE,
    CallType,
    RequestT,
    ResponseT,
)
from penstock.registry.image import BrokerImage


class GroupsClient:
    """One per broker."""

    def __init__(
        self, me: BrokerId, leaders: Leaders, channels: Channels, questions: Questions
    ) -> None:
        """questions: answered there where this broker is the coordinator itself."""
        self._me = me
        self._leaders = leaders
        self._channels = channels
        self.questions = questions

    async def coordinator(self) -> BrokerImage:
        """Who looks after the groups. NotCoordinator if nobody does now."""
        return await self._leaders.of_internal(OFFSETS_TOPIC, self.questions.groups.log.make)

    async def ask(self, call: CallType[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """One of the calls that `questions` answers."""
        coordinator = await self.coordinator()
        if coordinator.id == self._me:
            return await self.questions.answer(call, request)
        channel = self._channels.channel(coordinator.id)
        if channel is None:
            raise NotCoordinator(
                f"Broker {coordinator.id}, which looks after the groups, cannot be reached now."
            )
        response, _ = await channel.call(call, request)
        return response

    def read_share(self, request: pb.ReadShareRequest) -> Awaitable[pb.ReadShareResponse]:
        """Where a shared group stands, for the leader of the partition."""
        return self.ask(READ_SHARE, request)

    def write_share(self, request: pb.WriteShareRequest) -> Awaitable[pb.WriteShareResponse]:
        """Where it stands from now on. Returns when that is durable."""
        return self.ask(WRITE_SHARE, request)

    def who_may_write(self, topic_id: str) -> Awaitable[pb.CheckClaimResponse]:
        """To a topic that one producer has for itself."""
        return self.ask(CHECK_CLAIM, pb.CheckClaimRequest(topic_id=topic_id))
