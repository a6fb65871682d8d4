"""Produce: record batches into a partition (R-PRO-1), and producer ids for those who retry."""

from __future__ import annotations

from functools import partial
from typing import Final

from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.partitions.partition import Append, Partition
from penstock.model.errors import InvalidRequest, InvalidTopic, PenstockError
from penstock.model.ids import is_internal
from penstock.model.limits import PRODUCE_TARGET_BYTES_MAX, PRODUCE_TARGETS_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse

_ACKS: Final = (0, 1, -1)
# Filled anew for each answer: making one takes longer than everything else about answering.
_RESPONSE: Final = pb.ProduceResponse()


class _ProduceAnswer(Append):
    """Answers when the batches are committed. With acks 0 only a failure is answered."""

    __slots__ = ("_acks", "_message_id", "_session")

    def __init__(self, session: Session, message_id: int, acks: int) -> None:
        # What `Append` has, without the call.
        self.base_offset = self.append_time_ms = -1
        self.duplicate = False
        self._session = session
        self._message_id = message_id
        self._acks = acks

    def finished(self, error: PenstockError | None) -> None:
        channel = self._session.channel
        if error is not None:
            channel.answer_error(self._message_id, error)
        elif self._acks == 0:
            channel.leave_unanswered()
        else:
            response = _RESPONSE
            response.base_offset = self.base_offset
            response.append_time_ms = self.append_time_ms
            response.duplicate = self.duplicate
            channel.answer(self._message_id, pb.CALL_PRODUCE, response.SerializeToString())


def produce(
    context: Context,
    session: Session,
    message_id: int,
    envelope: memoryview,
    payload: memoryview,
) -> None:
    # A producer sends the same envelope with every batch of a partition, so what it means is
    # remembered with the session, for as long as the partition is open.
    remembered = session.produce_targets.get(bytes(envelope))
    if remembered is not None and remembered[0].is_open:
        partition, acks, claim = remembered
    else:
        partition, acks, claim = _find_target(context, session, envelope)
    if partition.lacks_replicas:
        partition.check_acks(acks)
    delivery = context.delivery
    if partition.admission.opens_batches or delivery.openings.is_any_waiting:
        answer = _ProduceAnswer(session, message_id, acks)
        into = None
        if partition.is_exclusive:
            # Judged when it is opened: in the turn in which it is appended.
            into = partial(delivery.claims.append_opened, partition, claim, answer, acks)
        connection = session.channel.connection
        delivery.openings.append(connection, partition, payload, answer, acks, into)
        return
    if partition.is_exclusive:
        answer = _ProduceAnswer(session, message_id, acks)
        opening = partition.admission.opening
        delivery.claims.append(partition, claim, payload, answer, acks, opening)
        return
    partition.append(payload, _ProduceAnswer(session, message_id, acks), acks)


def _find_target(
    context: Context, session: Session, envelope: memoryview
) -> tuple[Partition, int, int]:
    request = parse(pb.ProduceRequest, envelope)
    if is_internal(request.topic):
        raise InvalidTopic(f"{request.topic!r} holds the broker's own state: clients only read it.")
    if request.acks not in _ACKS:
        raise InvalidRequest(f"acks is {request.acks}: it can be 0, 1 or -1 (all).")
    partition = context.leaders.find(request.topic, request.partition)
    target = partition, request.acks, request.claim
    if len(envelope) <= PRODUCE_TARGET_BYTES_MAX:
        if len(session.produce_targets) >= PRODUCE_TARGETS_MAX:
            session.produce_targets.clear()
        session.produce_targets[bytes(envelope)] = target
    return target


async def init_producer(
    context: Context, request: pb.InitProducerRequest
) -> pb.InitProducerResponse:
    del request
    return pb.InitProducerResponse(producer_id=await context.producer_ids.take(), producer_epoch=0)
