"""Replies to requests: passed on to the client that waits, on its own connection."""

from __future__ import annotations

from typing import Final

from penstock.broker.call import Call
from penstock.broker.context import Context
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    ConnectionLost,
    InvalidRequest,
    NoReply,
    PenstockError,
    UnknownClient,
)
from penstock.model.limits import REPLIES_UNANSWERED_MAX, REPLY_BYTES_MAX
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import REPLY
from penstock.records.compression import Codec
from penstock.records.header import check_produced

# The client's library answers at once.
_ANSWER_S: Final = 5.0
_GONE: Final = "The client that asked is gone: nobody waits for the reply."


def reply(context: Context, call: Call[pb.ReplyRequest]) -> None:
    """Answered when whoever asked has it. What it is not to open, a client need not either."""
    request, payload = call.request, call.payload
    if len(payload) > REPLY_BYTES_MAX:
        raise BatchTooLarge(
            f"The reply has {len(payload)} bytes, and {REPLY_BYTES_MAX} is the most."
        )
    header = check_produced(payload)
    if header.record_count != 1 or header.codec != Codec.NONE:
        raise InvalidRequest("A reply is a batch of one message, and not compressed.")
    try:
        asking = context.clients.find(request.client).session.channel
    except UnknownClient:
        raise NoReply(_GONE) from None
    if not asking.connection.is_writable or asking.pending_calls >= REPLIES_UNANSWERED_MAX:
        raise Busy("The client that asked does not keep up with its replies: try again.")

    def answered(error: PenstockError | None, *_: memoryview) -> None:
        if error is None:
            call.answer(pb.ReplyResponse())
        elif isinstance(error, ConnectionLost):
            call.refuse(NoReply(_GONE))
        else:
            call.refuse(error)

    try:
        # A copy: where it was received is overwritten when this turn ends.
        envelope = request.SerializeToString()
        asking.start_call(REPLY.number, envelope, (bytes(payload),), answered, _ANSWER_S)
    except ConnectionLost:
        raise NoReply(_GONE) from None
