"""Who is let in while a broker is starting, and from then on.

A broker of a cluster listens before it is ready, since the others must be heard for it to become
so: meta servers elect a leader, and only then is there a registry. Until then clients are told to
wait, and only what brokers say to each other is served. Not what handlers do. The invariant: no
client's call reaches a handler before everything it may need is there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.broker.clients.session import Dispatch, Session
from penstock.broker.kafka.call import Call
from penstock.broker.kafka.session import Dispatch as KafkaDispatch
from penstock.model.errors import Busy, UnknownCall
from penstock.protocol.calls import CallType

Serve = Callable[[Session, int, memoryview, memoryview], None]
"""Given the session, the message id, the envelope and the payload; what it raises is the answer."""


class Doorway:
    """One per broker."""

    def __init__(self) -> None:
        # Empty as long as it is not known.
        self.cluster_id = ""
        self._between_brokers: dict[int, Serve] = {}
        self._clients: Dispatch = _ask_to_wait
        self._kafka: KafkaDispatch = _ask_kafka_to_wait

    def let_brokers(self, call: CallType[Any, Any], serve: Serve) -> None:
        """Serve the call whether the broker is ready or not."""
        self._between_brokers[call.number] = serve

    def let_clients(self, clients: Dispatch, kafka: KafkaDispatch) -> None:
        """The broker is ready."""
        self._clients, self._kafka = clients, kafka

    @property
    def clients(self) -> Dispatch:
        """For a new connection. One that came too early asks at each call."""
        return self.dispatch if self._clients is _ask_to_wait else self._clients

    @property
    def kafka(self) -> KafkaDispatch:
        return self._dispatch_kafka if self._kafka is _ask_kafka_to_wait else self._kafka

    def dispatch(
        self,
        session: Session,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        serve = self._between_brokers.get(call)
        if serve is not None:
            serve(session, message_id, envelope, payload)
        else:
            self._clients(session, call, message_id, envelope, payload)

    def serve(
        self,
        session: Session,
        call: int,
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        """A call that is no client's."""
        serve = self._between_brokers.get(call)
        if serve is None:
            raise UnknownCall(f"This broker does not answer calls of type {call}.")
        serve(session, message_id, envelope, payload)

    def _dispatch_kafka(self, call: Call) -> None:
        self._kafka(call)


def _ask_to_wait(
    session: Session, call: int, message_id: int, envelope: memoryview, payload: memoryview
) -> None:
    del session, call, message_id, envelope, payload
    raise Busy("The broker is starting: try again in a moment.")


def _ask_kafka_to_wait(call: Call) -> None:
    """Kafka's clients go elsewhere when a connection ends, and come back."""
    call.refuse(Busy("The broker is starting: try again in a moment."))
