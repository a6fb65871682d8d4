"""Group offsets: how far each group has read, kept by the broker (R-DEL-10)."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.group_answers import answered
from penstock.broker.group_coordinator import Answer
from penstock.broker.handlers.bounds import check_count
from penstock.coordination.group.coordinator import CommitRequest, Coordinator
from penstock.coordination.group.offsets import CommittedOffset, check_commit, check_group_name
from penstock.model.errors import UnknownTopic
from penstock.protocol import penstock_pb2 as pb


async def commit_offsets(
    context: Context, request: pb.CommitOffsetsRequest
) -> pb.CommitOffsetsResponse:
    """Of a group without members: one that has is told by them alone how far it has read."""
    check_group_name(request.group)
    check_count("offsets", len(request.offsets))
    now_ms = context.clock.now_ms()
    offsets = []
    for offset in request.offsets:
        # An offset of a partition that does not exist is a mistake to report, not to keep.
        topic = context.topics.find(offset.topic)
        if offset.partition >= len(topic.partitions):
            raise UnknownTopic(f"There is no partition {offset.partition} of {offset.topic!r}.")
        committed = CommittedOffset(
            topic=offset.topic,
            topic_id=topic.id,
            partition=offset.partition,
            offset=offset.offset,
            metadata=offset.metadata,
            committed_ms=now_ms,
        )
        check_commit(request.group, committed)
        offsets.append(committed)
    commit = CommitRequest(group=request.group, offsets=offsets)

    def ask(answer: Answer) -> None:
        context.groups.submit(answer, lambda groups, now_ms: groups.commit(answer, commit, now_ms))

    await answered(context, ask)
    return pb.CommitOffsetsResponse()


async def fetch_offsets(
    context: Context, request: pb.FetchOffsetsRequest
) -> pb.FetchOffsetsResponse:
    topics = frozenset(request.topics)

    def find(groups: Coordinator) -> list[CommittedOffset]:
        return sorted(
            committed
            for committed in groups.fetch(request.group)
            if (not topics or committed.topic in topics)
            and context.groups.topic_id(committed.topic) == committed.topic_id
        )

    response = pb.FetchOffsetsResponse()
    for committed in await answered(context, lambda answer: context.groups.ask(answer, find)):
        response.offsets.add(
            topic=committed.topic,
            partition=committed.partition,
            offset=committed.offset,
            metadata=committed.metadata,
        )
    return response


async def list_groups(context: Context, request: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
    del request

    def names(groups: Coordinator) -> list[str]:
        return [group.name for group in groups.list()]

    found = await answered(context, lambda answer: context.groups.ask(answer, names))
    return pb.ListGroupsResponse(groups=found)
