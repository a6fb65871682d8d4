"""Topics: where they are (routes), and making, changing, describing and deleting them."""

from __future__ import annotations

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.model.errors import PenstockError
from penstock.model.topic_config import kept_settings
from penstock.protocol import penstock_pb2 as pb
from penstock.registry.image import TopicImage


async def metadata(context: Context, call: Call[pb.MetadataRequest]) -> pb.MetadataResponse:
    request = call.request
    check_count("topics", len(request.topics))
    failures: dict[str, PenstockError] = {}
    if request.create_missing:
        for name in request.topics:
            try:
                await context.topics.create_missing(name)
            except PenstockError as error:
                failures[name] = error
    image = context.registry.image
    response = pb.MetadataResponse(cluster_id=image.cluster_id)
    for broker in context.leaders.brokers.values():
        response.brokers.add(id=broker.id, address=broker.address)
    names = list(image.topics) if request.all_topics else list(request.topics)
    for name in names:
        try:
            _add_routes(context, response.topics.add(name=name), context.topics.find(name))
        except PenstockError as error:
            error = failures.get(name, error)
            _fill_error(response.topics[-1].error, error)
    return response


async def create_topic(
    context: Context, call: Call[pb.CreateTopicRequest]
) -> pb.CreateTopicResponse:
    request = call.request
    topic = await context.topics.create(
        request.name,
        request.partitions,
        dict(request.config),
        replication_factor=request.replicas,
    )
    return pb.CreateTopicResponse(id=topic.id, partitions=len(topic.partitions))


async def delete_topic(
    context: Context, call: Call[pb.DeleteTopicRequest]
) -> pb.DeleteTopicResponse:
    await context.topics.delete(call.request.name)
    return pb.DeleteTopicResponse()


async def alter_topic(context: Context, call: Call[pb.AlterTopicRequest]) -> pb.AlterTopicResponse:
    request = call.request
    await context.topics.alter(request.name, dict(request.set), list(request.reset))
    return pb.AlterTopicResponse()


async def add_partitions(
    context: Context, call: Call[pb.AddPartitionsRequest]
) -> pb.AddPartitionsResponse:
    await context.topics.add_partitions(call.request.name, call.request.total)
    return pb.AddPartitionsResponse()


async def describe_topic(
    context: Context, call: Call[pb.DescribeTopicRequest]
) -> pb.DescribeTopicResponse:
    topic = context.topics.find(call.request.name)
    response = pb.DescribeTopicResponse(
        name=topic.name,
        id=topic.id,
        config=context.topics.effective_config(topic).as_text() | kept_settings(topic.settings),
        changed=sorted(topic.settings),
        broker=context.config.broker_id,
    )
    for number, placement in enumerate(topic.partitions):
        leader = context.leaders.of(topic, number)
        described = response.partitions.add(
            partition=number,
            leader=leader.broker,
            replicas=placement.replicas,
            in_sync=leader.in_sync,
        )
        try:
            replica = context.partitions.find(topic.name, number).replica
        except PenstockError as error:
            _fill_error(described.error, error)
            continue
        described.log_start_offset = replica.log.start_offset
        described.high_watermark = replica.high_watermark
        described.log_end_offset = replica.log.next_offset
        described.bytes = replica.log.size_bytes
        described.segments = replica.log.segment_count
        problem = replica.failure or context.partitions.disk_refuses()
        if problem is not None:
            _fill_error(described.error, problem)
    return response


def _add_routes(context: Context, routes: pb.MetadataResponse.Topic, topic: TopicImage) -> None:
    routes.id = topic.id
    for number, placement in enumerate(topic.partitions):
        leader = context.leaders.of(topic, number)
        routes.partitions.add(
            partition=number,
            leader=leader.broker,
            term=leader.term,
            replicas=placement.replicas,
            in_sync=leader.in_sync,
        )


def _fill_error(envelope: pb.Error, error: PenstockError) -> None:
    envelope.code = error.code
    envelope.message = error.message
    envelope.retriable = error.retriable
