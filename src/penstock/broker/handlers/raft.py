"""What the other brokers' copies of partitions say to those here.

A call that is not answered: whatever there is to say goes the other way as a call of its own. Only
what cannot be taken is answered, with an error, and hurts nothing else.
"""

from __future__ import annotations

from penstock.broker.context import Context
from penstock.broker.session import Session
from penstock.replication.wire import decode


def raft(
    context: Context,
    session: Session,
    message_id: int,
    envelope: memoryview,
    payload: memoryview,
) -> None:
    """The payload is not needed after the turn, which the end of the read ends."""
    del message_id
    context.peers.receive(decode(envelope, payload))
    session.channel.leave_unanswered()
