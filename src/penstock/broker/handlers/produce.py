"""Produce: record batches into a partition (R-PRO-1), and producer ids for those who retry."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from penstock.broker.call import AppendCall, Call
from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.partitions.partition import Partition
from penstock.model.errors import InvalidRequest, InvalidTopic, PenstockError
from penstock.model.ids import is_internal
from penstock.model.limits import PRODUCE_TARGET_BYTES_MAX, PRODUCE_TARGETS_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import CallType, parse

_ACKS: Final = (0, 1, -1)
# Filled anew for each answer: making one takes longer than everything else about answering.
_RESPONSE: Final = pb.ProduceResponse()


class ProduceCall(AppendCall[bytes]):
    """Answered when the batches are committed. With acks 0 only a failure is answered. Its request
    is the envelope as it came, which most often need not be read."""

    __slots__ = ("acks",)

    acks: int

    def __init__(
        self,
        session: Session,
        kind: CallType[Any, Any],
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        self.session = session
        self.channel = session.channel
        self.kind = kind
        self.message_id = message_id
        self.request = bytes(envelope)
        self.payload = payload
        self.base_offset = self.append_time_ms = -1
        self.duplicate = False

    def finished(self, error: PenstockError | None) -> None:
        if error is not None:
            self.channel.answer_error(self.message_id, error)
        elif self.acks == 0:
            self.channel.leave_unanswered()
        else:
            response = _RESPONSE
            response.base_offset = self.base_offset
            response.append_time_ms = self.append_time_ms
            response.duplicate = self.duplicate
            envelope = response.SerializeToString()
            self.channel.answer(self.message_id, pb.CALL_PRODUCE, envelope)


def produce(context: Context, call: ProduceCall) -> None:
    # A producer sends the same envelope with every batch of a partition, so what it means is
    # remembered with the session, for as long as the partition is open.
    remembered = call.session.produce_targets.get(call.request)
    if remembered is not None and remembered[0].is_open:
        partition, acks, claim = remembered
    else:
        partition, acks, claim = _find_target(context, call)
    call.acks = acks
    if partition.lacks_replicas:
        partition.check_acks(acks)
    delivery = context.delivery
    if partition.admission.opens_batches or delivery.openings.is_any_waiting:
        into = None
        if partition.is_exclusive:
            # Judged when it is opened: in the turn in which it is appended.
            into = partial(delivery.claims.append_opened, partition, claim, call, acks)
        delivery.openings.append(call.connection, partition, call.payload, call, acks, into)
    elif partition.is_exclusive:
        opening = partition.admission.opening
        delivery.claims.append(partition, claim, call.payload, call, acks, opening)
    else:
        partition.append(call.payload, call, acks)


def _find_target(context: Context, call: ProduceCall) -> tuple[Partition, int, int]:
    envelope, targets = call.request, call.session.produce_targets
    request = parse(pb.ProduceRequest, envelope)
    if is_internal(request.topic):
        raise InvalidTopic(f"{request.topic!r} holds the broker's own state: clients only read it.")
    if request.acks not in _ACKS:
        raise InvalidRequest(f"acks is {request.acks}: it can be 0, 1 or -1 (all).")
    partition = context.leaders.find(request.topic, request.partition)
    target = partition, request.acks, request.claim
    if len(envelope) <= PRODUCE_TARGET_BYTES_MAX:
        if len(targets) >= PRODUCE_TARGETS_MAX:
            targets.clear()
        targets[envelope] = target
    return target


async def init_producer(
    context: Context, call: Call[pb.InitProducerRequest]
) -> pb.InitProducerResponse:
    del call
    return pb.InitProducerResponse(producer_id=await context.producer_ids.take(), producer_epoch=0)
