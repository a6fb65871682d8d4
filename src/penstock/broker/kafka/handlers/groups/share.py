"""Share groups, which are our shared groups, in Kafka's words (KIP-932): heartbeats, and what they
are."""

from __future__ import annotations

import uuid

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.answers import (
    describe_each,
    group_code,
    named,
    tell_member,
)
from penstock.coordination.group.shared.messages import (
    ShareGroupDescription,
    ShareHeartbeat,
    ShareMemberDescription,
)
from penstock.model.errors import PenstockError
from penstock.protocol.kafka.messages import share_group_describe as describing
from penstock.protocol.kafka.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from penstock.registry.image import ClusterImage


def share_group_heartbeat(context: Context, call: Call) -> None:
    """A Kafka consumer says nothing of settings: it takes the group's, or the broker's."""
    request: ShareGroupHeartbeatRequest = call.request
    names = request.subscribed_topic_names
    heartbeat = ShareHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        new_incarnation=uuid.uuid4().hex,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        topic_names=None if names is None else frozenset(names),
    )

    answer = tell_member(call, ShareGroupHeartbeatResponse)
    context.groups.submit(
        answer,
        lambda groups, now_ms: groups.shared.heartbeat(
            answer, request.group_id, heartbeat, context.groups.topic_facts(), now_ms
        ),
    )


def share_group_describe(context: Context, call: Call) -> None:
    request: describing.ShareGroupDescribeRequest = call.request
    image = context.registry.image
    describe_each(
        context,
        call,
        request.group_ids,
        lambda groups, name: _described(image, groups.shared.describe(name)),
        _not_described,
        describing.ShareGroupDescribeResponse,
    )


def _described(image: ClusterImage, group: ShareGroupDescription) -> describing.DescribedGroup:
    return describing.DescribedGroup(
        group_id=group.name,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=[_member(image, member) for member in group.members],
    )


def _not_described(name: str, error: PenstockError) -> describing.DescribedGroup:
    return describing.DescribedGroup(group_code(error), error.message, name)


def _member(image: ClusterImage, member: ShareMemberDescription) -> describing.Member:
    return describing.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        assignment=named(image, member.assigned),
    )
