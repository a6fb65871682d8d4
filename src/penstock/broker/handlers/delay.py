"""Delayed and scheduled messages (R-DEL-13), and their way into partitions that others lead."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.broker.bounds import check_count
from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.delay.admission import check_count_of_call
from penstock.broker.delay.destination import Stand, append_due, check_topic, stand_response
from penstock.broker.topics.openings import Opened
from penstock.coordination.delay.records import DELAYED_TOPIC, Due
from penstock.coordination.delay.schedule import Schedule
from penstock.model.errors import InvalidRequest, NotCoordinator, PenstockError
from penstock.model.ids import check_public
from penstock.model.limits import COPY_PRODUCER_ID_MIN
from penstock.protocol import penstock_pb2 as pb
from penstock.records.header import check_produced


def delay(context: Context, call: Call[pb.DelayRequest]) -> None:
    request = call.request

    def accepted(error: PenstockError | None, dues: Sequence[Due] = ()) -> None:
        if error is not None:
            call.refuse(error)
            return
        response = pb.DelayResponse(
            due_ms=[due.due_ms for due in dues], numbers=[due.number for due in dues]
        )
        call.answer(response)

    def accept_opened(opened: Opened) -> None:
        context.delivery.delays.accept(request, opened, accepted)

    header = check_produced(call.payload)
    check_count_of_call(header)
    context.delivery.openings.open_for_later(
        call.connection,
        request.topic,
        request.partition,
        header,
        call.payload,
        accept_opened,
        accepted,
        takes_messages=True,
    )


async def cancel_delayed(
    context: Context, call: Call[pb.CancelDelayedRequest]
) -> pb.CancelDelayedResponse:
    request = call.request
    if len(request.due_ms) != len(request.numbers):
        raise InvalidRequest("Name each delayed message by its time and its number.")
    check_count("messages", len(request.numbers))
    dues = list(zip(request.due_ms, request.numbers, strict=True))
    return pb.CancelDelayedResponse(cancelled=await context.delivery.delays.cancel(dues))


async def describe_delayed(
    context: Context, call: Call[pb.DescribeDelayedRequest]
) -> pb.DescribeDelayedResponse:
    return context.delivery.delays.describe(call.request.topic)


async def put_schedule(
    context: Context, call: Call[pb.PutScheduleRequest]
) -> pb.PutScheduleResponse:
    asked = call.request.schedule
    schedule = Schedule(
        name=asked.name,
        cron=asked.cron,
        time_zone=asked.time_zone,
        topic=asked.topic,
        key=asked.key if asked.HasField("key") else None,
        value=asked.value,
        headers=dict(asked.headers),
    )
    return pb.PutScheduleResponse(
        schedule=_told(await context.delivery.delays.put_schedule(schedule))
    )


async def delete_schedule(
    context: Context, call: Call[pb.DeleteScheduleRequest]
) -> pb.DeleteScheduleResponse:
    await context.delivery.delays.delete_schedule(call.request.name)
    return pb.DeleteScheduleResponse()


async def list_schedules(
    context: Context, call: Call[pb.ListSchedulesRequest]
) -> pb.ListSchedulesResponse:
    del call
    return pb.ListSchedulesResponse(schedules=map(_told, context.delivery.delays.schedules()))


def _told(schedule: Schedule) -> pb.Schedule:
    return pb.Schedule(
        name=schedule.name,
        cron=schedule.cron,
        time_zone=schedule.time_zone,
        topic=schedule.topic,
        key=schedule.key,
        value=schedule.value,
        headers=schedule.headers,
        next_due_ms=schedule.next_due_ms,
        published=schedule.published,
        problem=schedule.problem,
    )


def deliver_due(context: Context, call: Call[pb.AppendDueRequest]) -> None:
    """From the coordinator of delayed messages, for a partition that this broker leads."""
    request = call.request
    term = context.leaders.of(context.topics.find(DELAYED_TOPIC), 0).term
    if request.coordinator_term < term:
        raise NotCoordinator(
            f"Delayed messages are looked after in term {term}, not {request.coordinator_term}."
        )
    check_public(request.topic)
    partition = context.leaders.find(request.topic, request.partition)
    check_topic(partition, request.topic_id)
    if request.producer_id < COPY_PRODUCER_ID_MIN:
        raise InvalidRequest("Delayed messages come under the producer of their lane.")
    payload = call.payload
    header = check_produced(payload) if payload else None
    if header is not None and (
        header.producer_id != request.producer_id or header.base_sequence < 0
    ):
        raise InvalidRequest("The batch has another producer than the call says.")

    def told(error: PenstockError | None, stand: Stand) -> None:
        if error is not None:
            call.refuse(error)
        else:
            call.answer(stand_response(stand))

    append_due(partition, request.producer_id, header, payload, told, context.clock)
