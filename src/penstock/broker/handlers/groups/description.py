"""What a group consists of and where it stands, put together for who asks: groups of every kind.

Not the questions themselves (`groups`). The invariant: a partition appears once, if the group has
committed anything in it or one of its members has it.
"""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.groups.questions import settings_message
from penstock.broker.handlers.groups.shared import named
from penstock.broker.handlers.groups.shared_places import standing_place
from penstock.coordination.group.classic.group import ClassicGroup
from penstock.coordination.group.classic.subscription import partitions_of, topics_of
from penstock.coordination.group.consumer.group import ConsumerGroup
from penstock.coordination.group.coordinator import Coordinator, listed_group
from penstock.coordination.group.offsets import Place
from penstock.coordination.group.shared.group import ShareGroup
from penstock.coordination.group.table import Group
from penstock.model.errors import PenstockError, UnknownGroup
from penstock.protocol import penstock_pb2 as pb

_Member = pb.DescribeGroupResponse.Member


def described_group(context: Context, groups: Coordinator, name: str) -> pb.DescribeGroupResponse:
    group = groups.table.get(name)
    if group is None:
        raise UnknownGroup(f"There is no group {name!r}.")
    listed = listed_group(group)
    response = pb.DescribeGroupResponse(group=name, kind=listed.kind, state=listed.state)
    machine = group.machine
    if isinstance(machine, ConsumerGroup):
        description = machine.describe()
        response.assignor, response.epoch = description.assignor, description.epoch
        response.members.extend(_consumer_members(context, machine))
    elif isinstance(machine, ShareGroup):
        response.members.extend(_share_members(context, machine))
        response.settings.CopyFrom(settings_message(machine.settings))
        _add_standings(context, groups, response)
        return response
    elif isinstance(machine, ClassicGroup):
        response.assignor = machine.describe().protocol
        response.members.extend(_classic_members(context, machine))
    _add_places(context, group, response)
    return response


def _share_members(context: Context, machine: ShareGroup) -> list[_Member]:
    return [
        _Member(
            member_id=one.member_id,
            client_name=one.client_id,
            client_host=one.client_host,
            member_epoch=one.member_epoch,
            topics=one.topic_names,
            assignment=named(context.registry.image, one.assigned),
        )
        for one in machine.describe().members
    ]


def _add_standings(
    context: Context, groups: Coordinator, response: pb.DescribeGroupResponse
) -> None:
    """Where a shared group stands: what its members take is leased, not owned."""
    for kept in groups.shared.places(response.group):
        standing = standing_place(context, kept)
        response.places.add(
            topic=kept.topic,
            partition=kept.partition,
            offset=standing.start,
            acknowledged=standing.done_beyond,
            dead=standing.dead,
            expired=standing.expired,
            high_watermark=standing.high_watermark,
        )


def _consumer_members(context: Context, machine: ConsumerGroup) -> list[_Member]:
    names = context.registry.image.names_by_id
    members = []
    for one in machine.describe().members:
        member = _Member(
            member_id=one.member_id,
            instance_id=one.instance_id or "",
            client_name=one.client_id,
            client_host=one.client_host,
            member_epoch=one.member_epoch,
            topics=one.topic_names if one.topic_pattern is None else (one.topic_pattern,),
        )
        for topic_id, partitions in one.assigned.items():
            name = names.get(bytes.fromhex(topic_id))
            if name is not None:
                member.assignment.add(topic=name, partitions=partitions)
        members.append(member)
    return members


def _classic_members(context: Context, machine: ClassicGroup) -> list[_Member]:
    """What they read and have is between them; it is told where it follows Kafka's format."""
    facts = context.groups.topic_facts()
    members = []
    for one in machine.describe().members:
        member = _Member(
            member_id=one.member_id,
            instance_id=one.instance_id or "",
            client_name=one.client_id,
            client_host=one.client_host,
            topics=sorted(topics_of(one.metadata) or ()),
        )
        for topic, partitions in partitions_of(one.assignment).items():
            # Its leader may have written anything.
            count = facts[topic].partition_count if topic in facts else 0
            real = sorted({number for number in partitions if number < count})
            if real:
                member.assignment.add(topic=topic, partitions=real)
        members.append(member)
    return members


def _add_places(context: Context, group: Group, response: pb.DescribeGroupResponse) -> None:
    owners: dict[Place, str] = {
        (owned.topic, partition): member.member_id
        for member in response.members
        for owned in member.assignment
        for partition in owned.partitions
    }
    offsets = {
        (committed.topic, committed.partition): max(committed.offset, -1)
        for committed in group.offsets.known(context.groups.topic_id)
    }
    for topic, partition in sorted(owners.keys() | offsets.keys()):
        response.places.add(
            topic=topic,
            partition=partition,
            offset=offsets.get((topic, partition), -1),
            member_id=owners.get((topic, partition), ""),
            high_watermark=_high_watermark(context, topic, partition),
        )


def _high_watermark(context: Context, topic: str, partition: int) -> int:
    """Of a partition that this broker leads; -1 otherwise: a copy may be behind."""
    try:
        return context.leaders.find(topic, partition).replica.high_watermark
    except PenstockError:
        return -1
