"""Push streams: opened, given credit, resumed, closed (R-DEL-6, R-DEL-8)."""

from __future__ import annotations

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.broker.delivery.push.filtered_source import FilteredSource
from penstock.broker.delivery.push.shared_source import SharedSource
from penstock.broker.delivery.push.sources import ExclusiveSource, Source, read_batches
from penstock.broker.handlers.leases import check_names
from penstock.coordination.delivery.push import (
    PARKED_BY_OPERATOR,
    CreditGiven,
    ParkAsked,
    ResumeAsked,
    check_credit,
)
from penstock.model.errors import InvalidRequest
from penstock.model.ids import TopicPartition
from penstock.model.limits import GROUP_NAME_LENGTH_MAX, MEMBER_NAME_LENGTH_MAX
from penstock.protocol import penstock_pb2 as pb


def open_push(context: Context, call: Call[pb.OpenPushRequest]) -> None:
    request = call.request
    if (
        len(request.group) > GROUP_NAME_LENGTH_MAX
        or len(request.member_id) > MEMBER_NAME_LENGTH_MAX
    ):
        raise InvalidRequest(
            f"The stream's group or member has a name that is too long: {GROUP_NAME_LENGTH_MAX} "
            f"and {MEMBER_NAME_LENGTH_MAX} characters are the limits."
        )
    session = call.session
    context.delivery.pushes.check_room(session, request.stream)
    check_credit(0, 0, request.credit_messages, request.credit_bytes)
    stream = context.delivery.pushes.open(session, request, _source(context, call))
    # The answer before the first delivery.
    call.answer(pb.OpenPushResponse())
    if context.delivery.pushes.parks.has(context.clients.name_of(session), request.group):
        stream.handle(ParkAsked(reason=PARKED_BY_OPERATOR))
    stream.handle(CreditGiven(messages=request.credit_messages, size_bytes=request.credit_bytes))


def give_credit(context: Context, call: Call[pb.GiveCreditRequest]) -> None:
    """Answered only where it is refused."""
    request = call.request
    stream = context.delivery.pushes.find(call.session, request.stream)
    stream.handle(CreditGiven(messages=request.messages, size_bytes=request.bytes))
    call.leave_unanswered()


def close_push(context: Context, call: Call[pb.ClosePushRequest]) -> None:
    request = call.request
    context.delivery.pushes.find(call.session, request.stream).close()
    call.answer(pb.ClosePushResponse())


def resume_push(context: Context, call: Call[pb.ResumePushRequest]) -> None:
    """Done already, where nothing is parked."""
    request = call.request
    stream = context.delivery.pushes.find(call.session, request.stream)
    stream.handle(ResumeAsked(is_automatic=request.is_automatic))
    if not request.is_automatic:
        context.delivery.pushes.parks.remove(context.clients.name_of(call.session), stream.group)
    call.answer(pb.ResumePushResponse())


def _source(context: Context, call: Call[pb.OpenPushRequest]) -> Source:
    """Where the stream's messages come from."""
    request = call.request
    name = TopicPartition(request.topic, request.partition)
    leaders, delivery = context.leaders, context.delivery
    group, member = request.group, request.member_id
    if request.shared:
        check_names(group, member, request.topic)
        if request.HasField("filter"):
            raise InvalidRequest("A shared group has the filter of its settings: leave it out.")
    # Found here, and again for each read: who leads may change.
    partition = leaders.find(*name)
    if request.shared:
        shares, clock = delivery.shares, context.clock
        return SharedSource(leaders, shares, call.session, group, member, name, clock)
    read_batches(partition, request.offset, request.offset, 1, 1)
    if request.HasField("filter"):
        compiled = delivery.filters.compiled(request.filter)
        connection = call.connection
        offset = request.offset
        return FilteredSource(leaders, delivery.fair_turns, connection, name, offset, compiled)
    return ExclusiveSource(leaders, name, request.offset, read_batches)
