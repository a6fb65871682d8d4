"""Staged writes: batches kept out of sight, and the commit that lets them appear."""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.session import Session
from penstock.coordination.staging.records import NamedAttempt, StagedBatch
from penstock.model.errors import PenstockError
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import parse


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

    def answer(error: PenstockError | None, already: bool) -> None:
        if error is not None:
            session.channel.answer_error(message_id, error)
        else:
            response = pb.StageResponse(already=already)
            session.channel.answer(message_id, pb.CALL_STAGE, response.SerializeToString())

    context.staging.stage(batch, payload, answer)


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
