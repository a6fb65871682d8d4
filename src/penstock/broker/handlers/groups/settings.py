"""What operators decide for single groups: asked and changed, at the coordinator (R-DEL-3)."""

from __future__ import annotations

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.protocol import penstock_pb2 as pb


async def alter_group_settings(
    context: Context, call: Call[pb.AlterGroupSettingsRequest]
) -> pb.AlterGroupSettingsResponse:
    return await context.groups_client.questions.alter_settings(call.request)


async def group_settings(
    context: Context, call: Call[pb.GroupSettingsRequest]
) -> pb.GroupSettingsResponse:
    return await context.groups_client.questions.settings(call.request)
