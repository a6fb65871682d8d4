"""Consumer groups of the next generation protocol (KIP-848): heartbeats, and what they are."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.groups.coordinator import new_member_id
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.handlers.groups.answers import (
    describe_each,
    group_code,
    named,
    tell_member,
)
from penstock.coordination.group.assignors.assignment import collect
from penstock.coordination.group.consumer.messages import (
    ConsumerGroupDescription,
    ConsumerHeartbeat,
    ConsumerMemberDescription,
)
from penstock.model.errors import InvalidRequest, PenstockError
from penstock.model.ids import TopicId
from penstock.protocol.kafka.messages import consumer_group_describe as describing
from penstock.protocol.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from penstock.registry.image import ClusterImage

# What ConsumerGroupDescribe says of a member that speaks this protocol.
_CONSUMER_MEMBER = 1


def consumer_group_heartbeat(context: Context, call: Call) -> None:
    request: ConsumerGroupHeartbeatRequest = call.request
    if call.version >= 1 and not request.member_id:
        raise InvalidRequest("The member id is empty: a member makes its own (KIP-1082).")
    heartbeat = _heartbeat(call, request)

    answer = tell_member(call, ConsumerGroupHeartbeatResponse)
    context.groups.submit(
        answer,
        lambda groups, now_ms: groups.consumer_heartbeat(
            answer, request.group_id, heartbeat, context.groups.topic_facts(), now_ms
        ),
    )


def _heartbeat(call: Call, request: ConsumerGroupHeartbeatRequest) -> ConsumerHeartbeat:
    owned = None
    if request.topic_partitions is not None:
        owned = collect(
            {
                (TopicId(topic.topic_id.hex()), partition)
                for topic in request.topic_partitions
                for partition in topic.partitions
            }
        )
    names = request.subscribed_topic_names
    timeout_ms = request.rebalance_timeout_ms
    return ConsumerHeartbeat(
        member_id=request.member_id,
        member_epoch=request.member_epoch,
        new_member_id="" if request.member_id else new_member_id(call.client_id),
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        client_id=call.client_id,
        client_host=call.client_host,
        rebalance_timeout_ms=None if timeout_ms == -1 else timeout_ms,
        topic_names=None if names is None else frozenset(names),
        topic_pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=owned,
    )


def consumer_group_describe(context: Context, call: Call) -> None:
    request: describing.ConsumerGroupDescribeRequest = call.request
    image = context.registry.image
    describe_each(
        context,
        call,
        request.group_ids,
        lambda groups, name: _described(image, groups.describe_consumer(name)),
        _not_described,
        describing.ConsumerGroupDescribeResponse,
    )


def _described(image: ClusterImage, group: ConsumerGroupDescription) -> describing.DescribedGroup:
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


def _member(image: ClusterImage, member: ConsumerMemberDescription) -> describing.Member:
    return describing.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.topic_names,
        subscribed_topic_regex=member.topic_pattern,
        assignment=named(image, member.assigned),
        target_assignment=named(image, member.target),
        member_type=_CONSUMER_MEMBER,
    )
