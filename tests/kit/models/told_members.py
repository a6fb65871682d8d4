"""What a member of a shared group is told, without a connection of its own."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.groups.answers import decided
from penstock.broker.handlers.groups import shared as share_groups
from penstock.coordination.group.shared.messages import ShareHeartbeatAnswer
from penstock.protocol import penstock_pb2 as pb


async def share_heartbeat(
    context: Context, request: pb.GroupHeartbeatRequest
) -> pb.GroupHeartbeatResponse:
    heartbeat = share_groups.share_heartbeat(context, request)
    facts = context.groups.topic_facts()
    told: ShareHeartbeatAnswer = await decided(
        context.groups,
        lambda ticket, groups, now_ms: groups.shared.heartbeat(
            ticket, request.group, heartbeat, facts, now_ms
        ),
    )
    return share_groups.share_response(context, told)
