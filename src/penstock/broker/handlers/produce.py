"""Produce: record batches into a partition (R-PRO-1), and producer ids for those who retry."""

from __future__ import annotations

from typing import Final

from penstock.broker.context import Context
from penstock.broker.partition import Append
from penstock.broker.session import Session
from penstock.model.errors import InvalidRequest, InvalidTopic, PenstockError
from penstock.model.ids import INTERNAL_PREFIX
from penstock.protocol import penstock_pb2 as pb

_ACKS: Final = (0, 1, -1)


class _ProduceAnswer(Append):
    """Answers when the batches are committed. With acks 0 only a failure is answered."""

    __slots__ = ("_acks", "_message_id", "_session")

    def __init__(self, session: Session, message_id: int, acks: int) -> None:
        super().__init__()
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
            response = pb.ProduceResponse(
                base_offset=self.base_offset,
                append_time_ms=self.append_time_ms,
                duplicate=self.duplicate,
            )
            channel.answer(self._message_id, pb.CALL_PRODUCE, response.SerializeToString())


def produce(
    context: Context,
    session: Session,
    message_id: int,
    request: pb.ProduceRequest,
    payload: memoryview,
) -> None:
    topic = request.topic
    if topic.startswith(INTERNAL_PREFIX):
        raise InvalidTopic(f"{topic!r} holds the broker's own state: clients only read it.")
    acks = request.acks
    if acks not in _ACKS:
        raise InvalidRequest(f"acks is {acks}: it can be 0, 1 or -1 (all).")
    partition = context.partitions.find(topic, request.partition)
    partition.append(payload, _ProduceAnswer(session, message_id, acks))


async def init_producer(
    context: Context, request: pb.InitProducerRequest
) -> pb.InitProducerResponse:
    del request
    return pb.InitProducerResponse(producer_id=await context.producer_ids.take(), producer_epoch=0)
