"""What the other brokers' copies of partitions say to those here.

A call that is not answered: whatever there is to say goes the other way as a call of its own. Only
what cannot be taken is answered, with an error, and hurts nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.broker.clients.session import Session
from penstock.replication.parcels.parcel import Parcel
from penstock.replication.parcels.wire import decode


class Receiver(Protocol):
    """Who takes parcels: it leaves alone what is not for it."""

    def receive(self, parcel: Parcel) -> None: ...


class Raft:
    """Hands parcels to whom they are for: the broker's replicas, or its meta server's."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self._receivers = receivers

    def serve(
        self, session: Session, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        """The payload is not needed after the turn, which the end of the read ends."""
        del message_id
        parcel = decode(envelope, payload)
        for receiver in self._receivers:
            receiver.receive(parcel)
        session.channel.leave_unanswered()
