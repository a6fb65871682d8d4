"""What the other brokers' copies of partitions say to those here.

A call that is not answered: whatever there is to say goes the other way as a call of its own. Only
what cannot be taken is answered, with an error, and hurts nothing else.
"""

from __future__ import annotations

from typing import Any

from penstock.broker.call import Call
from penstock.broker.clients.session import Session
from penstock.broker.ground import Ground
from penstock.protocol.calls import CallType
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.parcels.wire import decode


class RaftCall(Call[Parcel]):
    """Its parcel is made of the envelope and what lies behind it."""

    __slots__ = ()

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
        self.request = decode(envelope, payload)
        self.payload = payload


def raft(ground: Ground, call: RaftCall) -> None:
    """The payload is not needed after the turn, which the end of the read ends."""
    if not ground.receivers:
        raise ground.nobody_for(call.name)
    for receiver in ground.receivers:
        receiver.receive(call.request)
    call.leave_unanswered()
