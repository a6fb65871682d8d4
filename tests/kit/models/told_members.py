"""What a member of a shared group is told, without a connection of its own."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.groups.answers import answered
from penstock.broker.groups.coordinator import Answer
from penstock.broker.handlers.groups import shared as share_groups
from penstock.protocol import penstock_pb2 as pb


async def share_heartbeat(
    context: Context, request: pb.GroupHeartbeatRequest
) -> pb.GroupHeartbeatResponse:
    heartbeat = share_groups.share_heartbeat(context, request)

    def ask(answer: Answer) -> None:
        facts = context.groups.topic_facts()
        context.groups.submit(
            answer,
            lambda groups, now_ms: groups.shared.heartbeat(
                answer, request.group, heartbeat, facts, now_ms
            ),
        )

    told = await answered(ask)
    return share_groups.share_response(context, told)
