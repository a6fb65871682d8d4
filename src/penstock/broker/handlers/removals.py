"""Why offsets are gone: what left a partition, and which topics were deleted."""

from __future__ import annotations

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.protocol import penstock_pb2 as pb


async def list_removals(
    context: Context, call: Call[pb.ListRemovalsRequest]
) -> pb.ListRemovalsResponse:
    log = context.leaders.find(call.request.topic, call.request.partition).replica.log
    response = pb.ListRemovalsResponse()
    for removal in log.removals.latest():
        response.removals.add(
            first_offset=removal.first_offset,
            end_offset=removal.end_offset,
            cause=removal.cause,
            at_ms=removal.at_ms,
            detail=removal.detail,
        )
    return response


async def list_deleted_topics(
    context: Context, call: Call[pb.ListDeletedTopicsRequest]
) -> pb.ListDeletedTopicsResponse:
    response = pb.ListDeletedTopicsResponse()
    for topic in context.registry.image.deleted_topics:
        if call.request.name in ("", topic.name):
            entry = response.topics.add(name=topic.name, id=topic.topic_id, at_ms=topic.at_ms)
            for partition in topic.partitions:
                entry.partitions.add(
                    partition=partition.partition,
                    start_offset=partition.start_offset,
                    end_offset=partition.end_offset,
                )
    return response
