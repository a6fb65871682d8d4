"""Staged writes: batches kept out of sight, and the commit that lets them appear, also in
partitions that another broker leads."""

from __future__ import annotations

from penstock.broker.carrier.append import append_staged
from penstock.broker.clients.session import Session
from penstock.broker.context import Context
from penstock.broker.partitions.partition import Append
from penstock.broker.topics.openings import Opened
from penstock.coordination.staging.records import WRITES_TOPIC, NamedAttempt, StagedBatch
from penstock.model.errors import InvalidRequest, NotCoordinator, PenstockError, UnknownTopicId
from penstock.model.ids import check_public
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse
from penstock.records.header import check_produced


def stage(
    context: Context,
    session: Session,
    message_id: int,
    envelope: memoryview,
    payload: memoryview,
) -> None:
    request = parse(pb.StageRequest, envelope)
    batch = StagedBatch(
        write=request.write,
        epoch=request.epoch,
        attempt=request.attempt,
        sequence=request.sequence,
        topic=request.topic,
        topic_id="",
        partition=request.partition,
        records=0,
    )

    def answer(error: PenstockError | None, already: bool = False) -> None:
        if error is not None:
            session.channel.answer_error(message_id, error)
        else:
            response = pb.StageResponse(already=already)
            session.channel.answer(message_id, pb.CALL_STAGE, response.SerializeToString())

    def stage_opened(opened: Opened) -> None:
        context.staging.stage(batch, opened, answer)

    connection = session.channel.connection
    context.delivery.openings.open_for_later(
        connection, request.topic, request.partition, payload, stage_opened, answer
    )


async def commit_staged(
    context: Context, request: pb.CommitStagedRequest
) -> pb.CommitStagedResponse:
    committed = await context.staging.commit(
        request.write,
        request.epoch,
        [NamedAttempt(named.attempt, named.batches) for named in request.attempts],
        is_last=request.last,
        max_wait_s=request.max_wait_ms / 1000,
    )
    return pb.CommitStagedResponse(
        already=committed.already, records=committed.records, readable=committed.readable
    )


async def abort_staged(context: Context, request: pb.AbortStagedRequest) -> pb.AbortStagedResponse:
    await context.staging.abort(request.write, request.epoch, request.attempts)
    return pb.AbortStagedResponse()


async def committed_epoch(
    context: Context, request: pb.CommittedEpochRequest
) -> pb.CommittedEpochResponse:
    return pb.CommittedEpochResponse(epoch=context.staging.committed_epoch(request.write))


class _CopyAnswer(Append):
    """Answers when the batch is committed."""

    __slots__ = ("_message_id", "_session")

    def __init__(self, session: Session, message_id: int) -> None:
        super().__init__()
        self._session = session
        self._message_id = message_id

    def finished(self, error: PenstockError | None) -> None:
        if error is not None:
            self._session.channel.answer_error(self._message_id, error)
        else:
            response = pb.CopyResponse().SerializeToString()
            self._session.channel.answer(self._message_id, pb.CALL_COPY, response)


def copy(
    context: Context,
    session: Session,
    message_id: int,
    envelope: memoryview,
    payload: memoryview,
) -> None:
    """From the coordinator of staged writes, for a partition that this broker leads."""
    request = parse(pb.CopyRequest, envelope)
    writes = context.topics.find(WRITES_TOPIC)
    term = context.leaders.of(writes, 0).term
    if request.coordinator_term < term:
        raise NotCoordinator(
            f"Staged writes are looked after in term {term}, not {request.coordinator_term}."
        )
    check_public(request.topic)
    partition = context.leaders.find(request.topic, request.partition)
    if partition.topic_id != request.topic_id:
        raise UnknownTopicId(f"{request.topic!r} is another topic than the one it is staged for.")
    header = check_produced(payload)
    if header.producer_id < COPY_PRODUCER_ID_MIN or header.base_sequence < 0:
        raise InvalidRequest("A copied batch has the producer of its decision.")
    append_staged(partition, header, payload, _CopyAnswer(session, message_id), context.clock)
