"""A question of this broker to whoever looks after the groups, which may be itself.

Not the answer. The invariant: what the coordinator refuses, and that it cannot be reached, is
raised as it would be to a client.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from google.protobuf.message import Message

from penstock.broker.context import Context
from penstock.broker.handlers.groups.coordinators import group_coordinator
from penstock.model.errors import NotCoordinator
from penstock.protocol.calls import CallType

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


async def ask_groups(
    context: Context,
    call: CallType[RequestT, ResponseT],
    handler: Callable[[Context, RequestT], Awaitable[ResponseT]],
    request: RequestT,
) -> ResponseT:
    """handler: what answers the call where this broker is the coordinator itself."""
    coordinator = await group_coordinator(context)
    if coordinator.id == context.config.broker_id:
        return await handler(context, request)
    channel = context.channels.channel(coordinator.id)
    if channel is None:
        raise NotCoordinator(
            f"Broker {coordinator.id}, which looks after the groups, cannot be reached now."
        )
    response, _ = await channel.call(call, request)
    return response
