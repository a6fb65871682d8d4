"""Producers: a number for each that retries (R-PRO-2), and who is remembered where."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.lookup import check_once, find_partition, repeated
from penstock.model.errors import InvalidRequest, PenstockError, TransactionsRefused
from penstock.model.ids import TopicPartition
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.protocol.kafka.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)


async def init_producer_id(context: Context, call: Call) -> InitProducerIdResponse:
    """An idempotent producer that lost its way gets a new number too, not a higher epoch."""
    request: InitProducerIdRequest = call.request
    if request.transactional_id == "":
        raise InvalidRequest("The transactional id is empty: leave it out, or give one.")
    if request.transactional_id is not None:
        raise TransactionsRefused()
    return InitProducerIdResponse(producer_id=await context.producer_ids.take(), producer_epoch=0)


def describe_producers(context: Context, call: Call) -> DescribeProducersResponse:
    request: DescribeProducersRequest = call.request
    twice = repeated(
        TopicPartition(topic.name, number)
        for topic in request.topics
        for number in topic.partition_indexes
    )
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name,
                [
                    _described(context, TopicPartition(topic.name, number), twice)
                    for number in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


def _described(
    context: Context, name: TopicPartition, twice: set[TopicPartition]
) -> PartitionResponse:
    response = PartitionResponse(name.partition)
    try:
        check_once(name, twice)
        producers = find_partition(context, *name).producers.producers()
    except PenstockError as error:
        response.error_code = code_of(error)
        response.error_message = error.message
        return response
    response.active_producers = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.window[-1].last_sequence,
            last_timestamp=entry.last_append_ms,
            coordinator_epoch=-1,
        )
        for producer_id, entry in producers
    ]
    return response
