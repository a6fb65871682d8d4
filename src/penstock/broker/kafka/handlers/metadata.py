"""Metadata: brokers, topics and who leads their partitions (R-CORE-5)."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.addresses import host_and_port
from penstock.broker.kafka.call import Call
from penstock.broker.partitions.leaders import NO_BROKER
from penstock.model.errors import PenstockError
from penstock.model.ids import BrokerId, check_topic_name, is_internal
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.kafka.schema import ZERO_UUID
from penstock.registry.image import ClusterImage, TopicImage

_TOPIC_IDS_SINCE: Final = 12


def metadata(
    context: Context, call: Call
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    request: MetadataRequest = call.request
    wanted = request.topics
    # Version 0 had no null: nobody named meant everybody.
    if wanted is None or (call.version == 0 and not wanted):
        return _response(context, None)
    check_count("topics", len(wanted))
    # Each once, or a small request could ask for any amount of metadata.
    wanted = list({(topic.name, topic.topic_id): topic for topic in wanted}.values())
    if call.version < _TOPIC_IDS_SINCE and any(map(_has_id, wanted)):
        return _refused(wanted)
    image = context.registry.image
    missing = [
        topic.name
        for topic in wanted
        if topic.name and not _has_id(topic) and topic.name not in image.topics
    ]
    if missing and request.allow_auto_topic_creation and context.config.auto_create_topics:
        return _create(context, missing, wanted, is_reader=call.session.is_reader)
    return _response(context, wanted)


def _has_id(topic: MetadataRequestTopic) -> bool:
    """It goes by its id, even where there is a name as well."""
    return topic.name is None or topic.topic_id != ZERO_UUID


def _refused(wanted: Sequence[MetadataRequestTopic]) -> MetadataResponse:
    """Versions 10 and 11 have a place for ids, which must not be used yet."""
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=ErrorCode.INVALID_REQUEST,
                name=topic.name or "",
                topic_id=topic.topic_id,
            )
            for topic in wanted
        ]
    )


async def _create(
    context: Context,
    missing: Iterable[str],
    wanted: Sequence[MetadataRequestTopic],
    *,
    is_reader: bool,
) -> MetadataResponse:
    failures: dict[str, PenstockError] = {}
    for name in missing:
        try:
            await context.topics.create_missing(name, is_reader=is_reader)
        except PenstockError as error:
            failures[name] = error
    return _response(context, wanted, failures)


def _response(
    context: Context,
    wanted: Sequence[MetadataRequestTopic] | None,
    failures: dict[str, PenstockError] | None = None,
) -> MetadataResponse:
    image = context.registry.image
    if wanted is None:
        topics = [
            described(context, topic) for topic in image.topics.values() if not topic.deleting
        ]
    else:
        topics = [_find(context, image, topic, failures or {}) for topic in wanted]
    brokers, here = context.leaders.brokers, BrokerId(context.config.broker_id)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(broker.id, *host_and_port(broker.address))
            for broker in brokers.values()
        ],
        cluster_id=image.cluster_id,
        # Whom clients ask to change something, and wait for: librdkafka for minutes, if that one is
        # dead and was not known to be. Any broker does it, and this one lives.
        controller_id=here if here in brokers else controller_id(image),
        topics=topics,
    )


def _find(
    context: Context,
    image: ClusterImage,
    wanted: MetadataRequestTopic,
    failures: dict[str, PenstockError],
) -> MetadataResponseTopic:
    try:
        if _has_id(wanted):
            return described(context, image.topic_by_id(wanted.topic_id))
        assert wanted.name is not None
        check_topic_name(wanted.name)
        return described(context, context.topics.find(wanted.name))
    except PenstockError as error:
        return MetadataResponseTopic(
            error_code=code_of(failures.get(wanted.name or "", error)),
            name=None if _has_id(wanted) else wanted.name,
            topic_id=wanted.topic_id,
        )


def controller_id(image: ClusterImage) -> int:
    """The one that finishes what others left; where there is none, one of those who could be."""
    if image.controller is not None and image.controller in image.brokers:
        return image.controller
    return min(image.brokers, default=NO_BROKER)


def described(context: Context, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=bytes.fromhex(topic.id),
        is_internal=is_internal(topic.name),
        partitions=[_partition(context, topic, number) for number in range(len(topic.partitions))],
    )


def _partition(context: Context, topic: TopicImage, number: int) -> MetadataResponsePartition:
    replicas, leader = topic.partitions[number].replicas, context.leaders.of(topic, number)
    has_none = leader.broker == NO_BROKER
    return MetadataResponsePartition(
        error_code=ErrorCode.LEADER_NOT_AVAILABLE if has_none else ErrorCode.NONE,
        partition_index=number,
        leader_id=leader.broker,
        leader_epoch=leader.term,
        replica_nodes=replicas,
        isr_nodes=leader.in_sync,
        offline_replicas=[broker for broker in replicas if broker not in context.leaders.brokers],
    )
