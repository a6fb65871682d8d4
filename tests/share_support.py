"""What a member of a shared group is told, without a connection of its own."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.group_answers import answered
from penstock.broker.handlers import share_groups
from penstock.protocol import penstock_pb2 as pb


async def share_heartbeat(
    context: Context, request: pb.GroupHeartbeatRequest
) -> pb.GroupHeartbeatResponse:
    told = await answered(
        context, lambda answer: share_groups.share_heartbeat(context, request, answer)
    )
    return share_groups.share_response(context, told)
