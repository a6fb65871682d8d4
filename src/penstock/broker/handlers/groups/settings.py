"""What operators decide for single groups: asked and changed, at the coordinator (R-DEL-3)."""

from __future__ import annotations

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.groups.coordinator import Answer
from penstock.broker.handlers.groups.answers import answered
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.offsets import check_group_name
from penstock.coordination.group.settings import GroupSettingChange
from penstock.protocol import penstock_pb2 as pb


async def alter_group_settings(
    context: Context, request: pb.AlterGroupSettingsRequest
) -> pb.AlterGroupSettingsResponse:
    """Answered when it is durable."""
    check_count("settings", len(request.set) + len(request.reset))
    change = GroupSettingChange(
        settings=dict(request.set), removed=tuple(request.reset), replaces=request.replaces
    )

    def ask(answer: Answer) -> None:
        def act(groups: Coordinator, now_ms: int) -> Effects:
            del now_ms
            check_group_name(request.group)
            table = groups.table
            if request.only_checked:
                table.settings.changed(request.group, change)
                return Effects(answers=[(answer, None)])
            records = table.configure(request.group, change)
            return Effects(records=records, answers=[(answer, None)])

        context.groups.submit(answer, act)

    await answered(context, ask)
    return pb.AlterGroupSettingsResponse()


async def group_settings(
    context: Context, request: pb.GroupSettingsRequest
) -> pb.GroupSettingsResponse:
    def find(groups: Coordinator) -> pb.GroupSettingsResponse:
        settings = groups.table.settings
        if not request.group:
            return pb.GroupSettingsResponse(groups=settings.groups())
        check_group_name(request.group)
        return pb.GroupSettingsResponse(
            own=settings.of(request.group), defaults=settings.defaults(request.group)
        )

    found: pb.GroupSettingsResponse = await answered(
        context, lambda answer: context.groups.ask(answer, find)
    )
    return found
