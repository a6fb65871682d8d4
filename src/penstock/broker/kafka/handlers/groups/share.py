"""Share groups, which are our shared groups, in Kafka's words (KIP-932): heartbeats, and what they
are."""

from __future__ import annotations

import uuid

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.classic import group_code
from penstock.coordination.group.assignors import assignment
from penstock.coordination.group.coordinator import Coordinator
from penstock.coordination.group.shared.messages import (
    ShareGroupDescription,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
    ShareMemberDescription,
)
from penstock.model.errors import PenstockError
from penstock.protocol.kafka.messages import share_group_describe as describing
from penstock.protocol.kafka.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
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

    def answer(what: ShareHeartbeatAnswer | PenstockError) -> None:
        if isinstance(what, PenstockError):
            call.answer(
                ShareGroupHeartbeatResponse(error_code=group_code(what), error_message=what.message)
            )
            return
        call.answer(
            ShareGroupHeartbeatResponse(
                member_id=what.member_id,
                member_epoch=what.member_epoch,
                heartbeat_interval_ms=what.heartbeat_interval_ms,
                assignment=None if what.assignment is None else _assignment(what.assignment),
            )
        )

    context.groups.submit(
        answer,
        lambda groups, now_ms: groups.shared.heartbeat(
            answer, request.group_id, heartbeat, context.groups.topic_facts(), now_ms
        ),
    )


def _assignment(partitions: assignment.Assignment) -> Assignment:
    return Assignment(
        [TopicPartitions(bytes.fromhex(topic), numbers) for topic, numbers in partitions.items()]
    )


def share_group_describe(context: Context, call: Call) -> None:
    request: describing.ShareGroupDescribeRequest = call.request
    # Each once, or a short request would make an answer of gigabytes.
    names = list(dict.fromkeys(request.group_ids))
    check_count("groups", len(names))
    image = context.registry.image

    def describe(groups: Coordinator) -> list[describing.DescribedGroup]:
        described = []
        for name in names:
            try:
                described.append(_described(image, groups.shared.describe(name)))
            except PenstockError as error:
                described.append(_not_described(name, error))
        return described

    def answer(what: list[describing.DescribedGroup] | PenstockError) -> None:
        if isinstance(what, PenstockError):
            what = [_not_described(name, what) for name in names]
        call.answer(describing.ShareGroupDescribeResponse(groups=what))

    context.groups.ask(answer, describe)


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
    ids = ((bytes.fromhex(topic), numbers) for topic, numbers in member.assigned.items())
    return describing.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        # A topic that was deleted meanwhile has no name.
        assignment=describing.Assignment(
            [
                describing.TopicPartitions(topic_id, image.names_by_id.get(topic_id, ""), numbers)
                for topic_id, numbers in ids
            ]
        ),
    )
