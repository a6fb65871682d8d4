"""Group offsets: how far each group has read, kept by the broker (R-DEL-10)."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.handlers.bounds import check_count
from penstock.coordination.group_offsets import CommittedOffset, check_group_name
from penstock.protocol import penstock_pb2 as pb


async def commit_offsets(
    context: Context, request: pb.CommitOffsetsRequest
) -> pb.CommitOffsetsResponse:
    check_group_name(request.group)
    check_count("offsets", len(request.offsets))
    offsets = []
    for offset in request.offsets:
        # An offset of a partition that does not exist is a mistake to report, not to keep.
        context.partitions.find(offset.topic, offset.partition)
        offsets.append(
            CommittedOffset(
                topic=offset.topic,
                topic_id=context.topics.find(offset.topic).id,
                partition=offset.partition,
                offset=offset.offset,
                metadata=offset.metadata,
            )
        )
    await context.group_offsets.commit(request.group, offsets)
    return pb.CommitOffsetsResponse()


async def fetch_offsets(
    context: Context, request: pb.FetchOffsetsRequest
) -> pb.FetchOffsetsResponse:
    check_group_name(request.group)
    response = pb.FetchOffsetsResponse()
    for committed in context.group_offsets.of_group(request.group, frozenset(request.topics)):
        response.offsets.add(
            topic=committed.topic,
            partition=committed.partition,
            offset=committed.offset,
            metadata=committed.metadata,
        )
    return response


async def list_groups(context: Context, request: pb.ListGroupsRequest) -> pb.ListGroupsResponse:
    del request
    return pb.ListGroupsResponse(groups=context.group_offsets.groups())
