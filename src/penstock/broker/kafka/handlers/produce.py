"""Produce: record batches into partitions, as they are (R-PRO-1). One answer for all partitions of
a request, when the last of them is committed or refused."""

from __future__ import annotations

from typing import Final

from penstock.broker.context import Context
from penstock.broker.kafka.call import Call
from penstock.broker.partitions.partition import Append, Partition
from penstock.model.errors import (
    InvalidBatch,
    InvalidTopic,
    PenstockError,
    TransactionsRefused,
)
from penstock.model.ids import is_internal
from penstock.net.connection import Connection
from penstock.protocol.kafka.errors import ErrorCode, code_of
from penstock.protocol.kafka.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_ACKS: Final = (0, 1, -1)
_TOPIC_IDS_SINCE: Final = 13


def produce(context: Context, call: Call) -> None:
    request: ProduceRequest = call.request
    # Its batches lie in a buffer that is used again before the answer leaves.
    call.request = None
    answer = _ProduceAnswer(call, request.acks)
    for topic in request.topic_data:
        name: str | bytes = topic.topic_id if call.version >= _TOPIC_IDS_SINCE else topic.name
        responses = [_append(context, request, answer, name, data) for data in topic.partition_data]
        answer.topics.append(TopicProduceResponse(topic.name, topic.topic_id, responses))
    answer.settled()


def _append(
    context: Context,
    request: ProduceRequest,
    answer: _ProduceAnswer,
    topic: str | bytes,
    data: PartitionProduceData,
) -> PartitionProduceResponse:
    response = PartitionProduceResponse(data.index, base_offset=-1)
    if answer.acks not in _ACKS:
        message = f"acks is {answer.acks}: it can be 0, 1 or -1 (all)."
        answer.refuse(response, ErrorCode.INVALID_REQUIRED_ACKS, message)
        return response
    answer.outstanding += 1
    name, batch = "", data.records
    try:
        name = _name(context, request, topic)
        partition = context.leaders.find(name, data.index)
        if partition.lacks_replicas:
            partition.check_acks(answer.acks)
        if not isinstance(batch, memoryview):
            raise InvalidBatch("A produce request names a partition and has no batch for it.")
        append = _PartitionAppend(answer, partition, response)
        openings = context.delivery.openings
        if partition.is_exclusive:
            partition.append(batch, append, answer.acks)  # which says why not
        elif partition.admission.opens_batches or openings.is_any_waiting:
            openings.append(answer.connection, partition, batch, append, answer.acks)
        else:
            partition.append(batch, append, answer.acks)
    except PenstockError as error:
        if error.retriable and isinstance(batch, memoryview):
            context.leaders.turn_away(name, data.index, batch)
        answer.outstanding -= 1
        answer.refuse(response, code_of(error), error.message)
    return response


def _name(context: Context, request: ProduceRequest, topic: str | bytes) -> str:
    """Of a topic that clients may write to."""
    if isinstance(topic, bytes):
        topic = context.registry.image.topic_by_id(topic).name
    if request.transactional_id is not None:
        raise TransactionsRefused()
    if is_internal(topic):
        raise InvalidTopic(f"{topic!r} holds the broker's own state: clients only read it.")
    return topic


class _ProduceAnswer:
    """The response as it fills."""

    __slots__ = ("_call", "_refusal", "acks", "outstanding", "topics")

    def __init__(self, call: Call, acks: int) -> None:
        self._call = call
        self.acks = acks
        self.topics: list[TopicProduceResponse] = []
        # One more than there are until all have been handed over, so that it is not sent before.
        self.outstanding = 1
        self._refusal = ""

    @property
    def connection(self) -> Connection:
        return self._call.connection

    def refuse(self, response: PartitionProduceResponse, code: ErrorCode, message: str) -> None:
        self._refusal = response.error_message = message
        response.error_code = code
        response.base_offset = -1

    def settled(self) -> None:
        self.outstanding -= 1
        if self.outstanding:
            return
        if self.acks != 0:
            self._call.answer(ProduceResponse(self.topics))
        elif self._refusal:
            # As in Kafka: the producer sees the connection end, and asks for metadata again.
            self._call.disconnect(PenstockError(self._refusal))
        else:
            self._call.answer_nothing()


class _PartitionAppend(Append):
    """One partition's part of the answer."""

    __slots__ = ("_answer", "_partition", "_response")

    def __init__(
        self, answer: _ProduceAnswer, partition: Partition, response: PartitionProduceResponse
    ) -> None:
        # What `Append` has, without the call.
        self.base_offset = self.append_time_ms = -1
        self.duplicate = False
        self._answer = answer
        self._partition = partition
        self._response = response

    def finished(self, error: PenstockError | None) -> None:
        response = self._response
        if error is None:
            response.base_offset = self.base_offset
            response.log_append_time_ms = self.append_time_ms
            response.log_start_offset = self._partition.replica.log.start_offset
        else:
            self._answer.refuse(response, code_of(error), error.message)
        self._answer.settled()
