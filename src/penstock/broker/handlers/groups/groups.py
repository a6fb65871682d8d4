"""Groups as a whole: how far each has read, kept by the broker (R-DEL-10); which there are, what
they consist of, and that one is to be no more. Their members are in `members`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.groups.answers import decided, found
from penstock.broker.handlers.groups.description import described_group
from penstock.broker.handlers.groups.shared_places import beginning_at
from penstock.coordination.group.coordinator import CommitRequest, Coordinator, Outcomes
from penstock.coordination.group.effects import Effects
from penstock.coordination.group.offsets import CommittedOffset, check_group_name, check_metadata
from penstock.coordination.group.shared.messages import ShareReset
from penstock.coordination.group.subscriptions import Subscription, list_subscriptions
from penstock.model.errors import InvalidRequest, PenstockError, UnknownTopic
from penstock.protocol import penstock_pb2 as pb

# Instead of an epoch, of who is none.
_NO_MEMBER: Final = -1


def commit_offsets(context: Context, call: Call[pb.CommitOffsetsRequest]) -> None:
    """Of a group without members, or by one of them: a group that has members is told by them alone
    how far it has read, each with the epoch that it was given last. A shared group begins there,
    while it has no members."""
    request = call.request
    check_group_name(request.group)
    check_count("offsets", len(request.offsets))
    now_ms = context.clock.now_ms()
    offsets = []
    for offset in request.offsets:
        # An offset of a partition that does not exist is a mistake to report, not to keep.
        topic = context.topics.find(offset.topic)
        if offset.partition >= len(topic.partitions):
            raise UnknownTopic(f"There is no partition {offset.partition} of {offset.topic!r}.")
        if offset.offset < 0:
            raise InvalidRequest(
                f"Group {request.group!r} commits offset {offset.offset} of {offset.topic}-"
                f"{offset.partition}: an offset is 0 or more."
            )
        committed = CommittedOffset(
            topic=offset.topic,
            topic_id=topic.id,
            partition=offset.partition,
            offset=offset.offset,
            metadata=offset.metadata,
            committed_ms=now_ms,
        )
        check_metadata(committed)
        offsets.append(committed)
    commit = CommitRequest(
        group=request.group,
        offsets=offsets,
        member_id=request.member_id,
        generation=request.member_epoch if request.member_id else _NO_MEMBER,
        knows_epochs=True,
        must_own=bool(request.member_id),
    )

    def answer(what: PenstockError | None) -> None:
        if isinstance(what, PenstockError):
            call.refuse(what)
        else:
            call.answer(pb.CommitOffsetsResponse())

    def change(groups: Coordinator, now_ms: int) -> Effects:
        if not request.member_id and groups.shared.has(request.group):
            incarnation = uuid.uuid4().hex
            return groups.shared.reset(answer, request.group, incarnation, _resets(offsets), now_ms)
        return groups.commit(answer, commit, now_ms)

    context.groups.submit(answer, change)


def _resets(offsets: Iterable[CommittedOffset]) -> list[ShareReset]:
    """Of a shared group: it has acknowledged what is before, and nothing from there on."""
    return [
        ShareReset(
            topic=one.topic,
            topic_id=one.topic_id,
            partition=one.partition,
            state=beginning_at(one.offset),
        )
        for one in offsets
    ]


async def fetch_offsets(
    context: Context, call: Call[pb.FetchOffsetsRequest]
) -> pb.FetchOffsetsResponse:
    topics = frozenset(call.request.topics)

    def find(groups: Coordinator) -> list[CommittedOffset]:
        return sorted(
            committed
            for committed in groups.fetch(call.request.group).standing(context.groups.topic_id)
            if not topics or committed.topic in topics
        )

    response = pb.FetchOffsetsResponse()
    for committed in await found(context.groups, find):
        response.offsets.add(
            topic=committed.topic,
            partition=committed.partition,
            offset=committed.offset,
            metadata=committed.metadata,
        )
    return response


async def list_groups(context: Context, call: Call[pb.ListGroupsRequest]) -> pb.ListGroupsResponse:
    del call

    def names(groups: Coordinator) -> list[str]:
        return [group.name for group in groups.list()]

    return pb.ListGroupsResponse(groups=await found(context.groups, names))


async def describe_group(
    context: Context, call: Call[pb.DescribeGroupRequest]
) -> pb.DescribeGroupResponse:
    check_group_name(call.request.group)

    def describe(groups: Coordinator) -> pb.DescribeGroupResponse:
        return described_group(context, groups, call.request.group)

    return await found(context.groups, describe)


async def delete_group(
    context: Context, call: Call[pb.DeleteGroupRequest]
) -> pb.DeleteGroupResponse:
    """Its place in every topic goes, and topics that it read point to point are everybody's."""
    outcomes: Outcomes = await decided(
        context.groups, lambda ticket, groups, _: groups.delete(ticket, [call.request.group])
    )
    [refusal] = outcomes
    if refusal is not None:
        raise refusal
    return pb.DeleteGroupResponse()


async def subscriptions(
    context: Context, call: Call[pb.ListSubscriptionsRequest]
) -> pb.ListSubscriptionsResponse:
    def find(groups: Coordinator) -> list[Subscription]:
        return list_subscriptions(groups.table, context.groups.topic_id, call.request.topic)

    response = pb.ListSubscriptionsResponse()
    for one in await found(context.groups, find):
        response.subscriptions.add(
            topic=one.topic, point_to_point=one.is_point_to_point, groups=one.groups
        )
    return response
