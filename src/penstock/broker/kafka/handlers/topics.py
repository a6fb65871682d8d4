"""Topics: making them, deleting them, giving them partitions, describing them page by page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.broker.bounds import check_count
from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import check_once, repeated
from penstock.broker.kafka.settings.topics import describe, from_kafka
from penstock.model.errors import (
    InvalidPartitions,
    InvalidPlacement,
    InvalidReplication,
    InvalidRequest,
    PenstockError,
)
from penstock.model.ids import BrokerId, is_internal
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from penstock.protocol.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from penstock.protocol.kafka.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from penstock.protocol.kafka.schema import ZERO_UUID
from penstock.registry.image import TopicImage

_DEFAULT: Final = -1
_STATES_SINCE: Final = 6
# As Kafka's max.request.partition.size.limit.
_PAGE_PARTITIONS_MAX: Final = 2_000


async def create_topics(context: Context, call: Call) -> CreateTopicsResponse:
    request: CreateTopicsRequest = call.request
    check_count("topics", len(request.topics))
    twice = repeated(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        result = CreatableTopicResult(topic.name, error_message=None)
        results.append(result)
        try:
            check_once(topic.name, twice)
            await _create(context, topic, result, validate_only=request.validate_only)
        except PenstockError as error:
            result.error_code = code_of(error)
            result.error_message = error.message
    return CreateTopicsResponse(topics=results)


async def _create(
    context: Context, topic: CreatableTopic, result: CreatableTopicResult, *, validate_only: bool
) -> None:
    count = _partition_count(context, topic)
    replicas = max(topic.replication_factor, 0)
    by_number = sorted(topic.assignments, key=lambda place: place.partition_index)
    placement = [tuple(map(BrokerId, place.broker_ids)) for place in by_number] or None
    settings = from_kafka({setting.name: setting.value for setting in topic.configs})
    if validate_only:
        context.topics.check_new(topic.name, count, settings)
        result.num_partitions = count or context.config.partitions_default
        result.replication_factor = replicas or context.topics.replicas_default
        return
    made = await context.topics.create(
        topic.name, count, settings, replication_factor=replicas, placement=placement
    )
    result.topic_id = bytes.fromhex(made.id)
    result.num_partitions = len(made.partitions)
    result.replication_factor = len(made.partitions[0].replicas)
    result.configs = [
        CreatableTopicConfigs(
            setting.name, setting.value, setting.read_only, setting.source, setting.sensitive
        )
        for setting in describe(made, context.topics.defaults)
    ]


def _partition_count(context: Context, topic: CreatableTopic) -> int:
    """How many partitions are asked for, where and how often; 0 for the default."""
    brokers = context.registry.image.brokers
    if topic.assignments:
        if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
            raise InvalidRequest(
                f"{topic.name!r} has assignments, and a number of partitions or replicas as well: "
                "give one or the other."
            )
        _check_assignments(topic.name, topic.assignments, brokers)
        return len(topic.assignments)
    if topic.num_partitions < 1 and topic.num_partitions != _DEFAULT:
        raise InvalidPartitions(
            f"{topic.name!r} would have {topic.num_partitions} partitions: ask for one or more."
        )
    replicas = topic.replication_factor
    if replicas != _DEFAULT and not 1 <= replicas <= len(brokers):
        raise InvalidReplication(
            f"{topic.name!r} would have {replicas} replicas: there are {len(brokers)} brokers, so "
            f"ask for 1 to {len(brokers)}."
        )
    return max(topic.num_partitions, 0)


def _check_assignments(
    name: str, assignments: Sequence[CreatableReplicaAssignment], brokers: Collection[int]
) -> None:
    if sorted(place.partition_index for place in assignments) != list(range(len(assignments))):
        raise InvalidPlacement(f"The partitions of {name!r} are not numbered from 0 on.")
    for place in assignments:
        _check_brokers(name, place.broker_ids, brokers)


def _check_brokers(name: str, broker_ids: Sequence[int], brokers: Collection[int]) -> None:
    if not broker_ids or len(set(broker_ids)) != len(broker_ids):
        raise InvalidPlacement(f"A partition of {name!r} names no broker, or one twice.")
    for broker_id in broker_ids:
        if broker_id not in brokers:
            raise InvalidPlacement(f"There is no broker {broker_id} for {name!r}.")


async def delete_topics(context: Context, call: Call) -> DeleteTopicsResponse:
    request: DeleteTopicsRequest = call.request
    if call.version >= _STATES_SINCE:
        wanted = request.topics
    else:
        wanted = [DeleteTopicState(name) for name in request.topic_names]
    check_count("topics", len(wanted))
    twice = repeated(topic.name or topic.topic_id for topic in wanted)
    responses = []
    for topic in wanted:
        result = DeletableTopicResult(topic.name, topic.topic_id)
        responses.append(result)
        try:
            found = _find_to_delete(context, topic, twice)
            result.name, result.topic_id = found.name, bytes.fromhex(found.id)
            await context.topics.delete(found.name)
        except PenstockError as error:
            result.error_code = code_of(error)
            result.error_message = error.message
    return DeleteTopicsResponse(responses=responses)


def _find_to_delete(
    context: Context, topic: DeleteTopicState, twice: set[str | bytes]
) -> TopicImage:
    if (topic.name is None) == (topic.topic_id == ZERO_UUID):
        raise InvalidRequest("A topic is deleted by its name or by its id: give one of them.")
    check_once(topic.name or topic.topic_id, twice)
    if topic.name is None:
        return context.registry.image.topic_by_id(topic.topic_id)
    return context.topics.find(topic.name)


async def create_partitions(context: Context, call: Call) -> CreatePartitionsResponse:
    request: CreatePartitionsRequest = call.request
    check_count("topics", len(request.topics))
    twice = repeated(topic.name for topic in request.topics)
    results = []
    for topic in request.topics:
        result = CreatePartitionsTopicResult(topic.name)
        results.append(result)
        try:
            check_once(topic.name, twice)
            _check_new_partitions(context, topic)
            if not request.validate_only:
                placement = [
                    tuple(map(BrokerId, place.broker_ids)) for place in topic.assignments or ()
                ]
                await context.topics.add_partitions(
                    topic.name, topic.count, placement=placement or None
                )
        except PenstockError as error:
            result.error_code = code_of(error)
            result.error_message = error.message
    return CreatePartitionsResponse(results=results)


def _check_new_partitions(context: Context, topic: CreatePartitionsTopic) -> None:
    context.topics.check_more(topic.name, topic.count)
    if topic.assignments is None:
        return
    new = topic.count - len(context.topics.find(topic.name).partitions)
    if len(topic.assignments) != new:
        raise InvalidPlacement(
            f"{topic.name!r} gets {new} partitions and {len(topic.assignments)} assignments."
        )
    for place in topic.assignments:
        _check_brokers(topic.name, place.broker_ids, context.registry.image.brokers)


def describe_topic_partitions(context: Context, call: Call) -> DescribeTopicPartitionsResponse:
    """By name, from where the last page ended (KIP-966)."""
    request: DescribeTopicPartitionsRequest = call.request
    image = context.registry.image
    named = {topic.name for topic in request.topics}
    all_names = [topic.name for topic in image.topics.values() if not topic.deleting]
    names = sorted(named or all_names)
    first = request.cursor or Cursor("", 0)
    if first.partition_index < 0 or (named and request.cursor and first.topic_name not in named):
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, name)
                for name in names
            ]
        )
    left = min(max(request.response_partition_limit, 1), _PAGE_PARTITIONS_MAX)
    response = DescribeTopicPartitionsResponse(topics=[])
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    response.topics = topics
    for name in names:
        if name < first.topic_name:
            continue
        if left == 0:
            response.next_cursor = Cursor(name, 0)
            break
        start = first.partition_index if name == first.topic_name else 0
        try:
            topic = context.topics.find(name)
        except PenstockError as error:
            topics.append(DescribeTopicPartitionsResponseTopic(code_of(error), name))
            continue
        end = min(len(topic.partitions), start + left)
        topics.append(_described(context, topic, range(start, end)))
        left -= len(topics[-1].partitions)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
    return response


def _described(
    context: Context, topic: TopicImage, numbers: range
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=bytes.fromhex(topic.id),
        is_internal=is_internal(topic.name),
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                partition_index=number,
                leader_id=leader.broker,
                leader_epoch=leader.term,
                replica_nodes=topic.partitions[number].replicas,
                isr_nodes=leader.in_sync,
                eligible_leader_replicas=(),
                last_known_elr=(),
            )
            for number in numbers
            for leader in (context.leaders.of(topic, number),)
        ],
    )
