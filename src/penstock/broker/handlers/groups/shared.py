"""Members of shared groups: what their heartbeats say, and what they are told (R-DEL-3).

Not where a group stands in partitions, which their leaders tell (`broker.groups.questions`).
"""

from __future__ import annotations

import uuid

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.coordination.group.assignors.assignment import Assignment
from penstock.coordination.group.shared.messages import (
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from penstock.coordination.group.shared.settings import (
    SharedFilter,
    WantedSettings,
)
from penstock.model.errors import InvalidRequest
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.image import ClusterImage


def share_heartbeat(context: Context, request: pb.GroupHeartbeatRequest) -> ShareHeartbeat:
    """A member of a shared group joins, stays or leaves."""
    check_count("topics", len(request.topics))
    if request.claims or request.assignor or request.HasField("instance_id"):
        raise InvalidRequest(
            "A member of a shared group has no assignor, no claims and no instance id: leave them "
            "out."
        )
    is_told = bool(request.topics) or request.is_full
    return ShareHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        new_incarnation=uuid.uuid4().hex,
        client_id=request.client_name,
        topic_names=frozenset(request.topics) if is_told else None,
        settings=_wanted(context, request.settings) if request.HasField("settings") else None,
        is_point_to_point=request.point_to_point,
    )


def share_response(context: Context, told: ShareHeartbeatAnswer) -> pb.GroupHeartbeatResponse:
    response = pb.GroupHeartbeatResponse(
        member_epoch=told.member_epoch, heartbeat_interval_ms=told.heartbeat_interval_ms
    )
    if told.assignment is not None:
        response.has_assignment = True
        response.assignment.extend(named(context.registry.image, told.assignment))
    return response


def named(image: ClusterImage, partitions: Assignment) -> list[pb.OwnedTopic]:
    """With the topics' names; a topic that was deleted meanwhile has none, and is left out."""
    names = ((image.names_by_id.get(bytes.fromhex(one)), one) for one in partitions)
    return [
        pb.OwnedTopic(topic=name, partitions=partitions[topic_id])
        for name, topic_id in names
        if name is not None
    ]


def _wanted(context: Context, settings: pb.SharedSettings) -> WantedSettings:
    wanted = settings.filter
    check_count("tags", len(wanted.tags))
    if wanted.ByteSize():
        # So that whoever writes it is told what is wrong with it.
        context.delivery.filters.compiled(wanted)
    return WantedSettings(
        ordered_by_key=settings.ordered_by_key,
        lease_ms=settings.lease_ms or None,
        attempts_max=settings.attempts_max or None,
        backoff_ms=settings.backoff_ms if settings.HasField("backoff_ms") else None,
        backoff_ms_max=settings.backoff_ms_max or None,
        filter=SharedFilter(
            tags=tuple(sorted(set(wanted.tags))),
            key=wanted.key if wanted.HasField("key") else None,
            key_prefix=wanted.key_prefix if wanted.HasField("key_prefix") else None,
            expression=wanted.expression,
        ),
        start_latest=settings.start_latest,
    )


async def read_share(context: Context, call: Call[pb.ReadShareRequest]) -> pb.ReadShareResponse:
    return await context.groups_client.questions.read_share(call.request)


async def write_share(context: Context, call: Call[pb.WriteShareRequest]) -> pb.WriteShareResponse:
    return await context.groups_client.questions.write_share(call.request)
