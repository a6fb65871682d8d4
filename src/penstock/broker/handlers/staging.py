"""Staged writes: batches kept out of sight, and the commit that lets them appear, also in
partitions that another broker leads."""

from __future__ import annotations

from penstock.broker.call import AppendCall, Call
from penstock.broker.carrier.append import append_staged
from penstock.broker.context import Context
from penstock.broker.topics.openings import Opened
from penstock.coordination.staging.records import WRITES_TOPIC, NamedAttempt, StagedBatch
from penstock.model.errors import InvalidRequest, NotCoordinator, PenstockError, UnknownTopicId
from penstock.model.ids import check_public
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.protocol import penstock_pb2 as pb
from penstock.records.header import check_produced


def stage(context: Context, call: Call[pb.StageRequest]) -> None:
    request = call.request
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
            call.refuse(error)
        else:
            call.answer(pb.StageResponse(already=already))

    def stage_opened(opened: Opened) -> None:
        context.staging.current.stage(batch, opened, answer)

    header, sent = check_produced(call.payload), call.payload
    context.delivery.openings.open_for_later(
        call.connection, request.topic, request.partition, header, sent, stage_opened, answer
    )


def commit_staged(context: Context, call: Call[pb.CommitStagedRequest]) -> None:
    request = call.request

    def answer(outcome: PenstockError | pb.CommitStagedResponse) -> None:
        if isinstance(outcome, PenstockError):
            call.refuse(outcome)
        else:
            call.answer(outcome)

    context.staging.current.decisions.commit(
        request.write,
        request.epoch,
        [NamedAttempt(named.attempt, named.batches) for named in request.attempts],
        answer,
        is_last=request.last,
        max_wait_s=request.max_wait_ms / 1000,
    )


async def abort_staged(
    context: Context, call: Call[pb.AbortStagedRequest]
) -> pb.AbortStagedResponse:
    request = call.request
    await context.staging.current.abort(request.write, request.epoch, request.attempts)
    return pb.AbortStagedResponse()


def committed_epoch(
    context: Context, call: Call[pb.CommittedEpochRequest]
) -> pb.CommittedEpochResponse:
    epoch = context.staging.current.committed_epoch(call.request.write)
    return pb.CommittedEpochResponse(epoch=epoch)


class CopyCall(AppendCall[pb.CopyRequest]):
    """Answered when the batch is committed."""

    __slots__ = ()

    def finished(self, error: PenstockError | None) -> None:
        if error is not None:
            self.refuse(error)
        else:
            self.answer(pb.CopyResponse())


def copy(context: Context, call: CopyCall) -> None:
    """From the coordinator of staged writes, for a partition that this broker leads."""
    request = call.request
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
    header = check_produced(call.payload)
    if header.producer_id < COPY_PRODUCER_ID_MIN or header.base_sequence < 0:
        raise InvalidRequest("A copied batch has the producer of its decision.")
    append_staged(partition, header, call.payload, call, context.clock)
