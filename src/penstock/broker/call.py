"""What a handler gets of one request, whichever protocol it came by: what is asked, who asks, and
the way to answer.

Not what is done (the handlers), nor which handler does it (`broker.entry.table`). Kafka's requests
are `broker.kafka.call`s, since other bytes answer them. The invariant: a call is answered once, by
its handler's answer, by what that returns or raises, or by the end of its connection.
"""

from __future__ import annotations

from typing import Any, Protocol

from penstock.broker.clients.session import Session
from penstock.model.errors import PenstockError
from penstock.net import call as net
from penstock.net.call import AskedT
from penstock.net.connection import Connection
from penstock.protocol.calls import CallType, parse


class AnyCall(Protocol):
    """What calls of both protocols have."""

    request: Any

    @property
    def name(self) -> str:
        """For people."""
        ...

    @property
    def connection(self) -> Connection: ...

    @property
    def client_host(self) -> str:
        """As its protocol shows it to people: with the port, or as Kafka has it."""
        ...

    @property
    def principal(self) -> str | None:
        """Who has proved to be the caller; None: nobody has to, yet."""
        ...

    def answer(self, response: Any, /) -> None: ...

    def refuse(self, error: PenstockError, /) -> None: ...


class Call(net.Call[AskedT]):
    """One of our own protocol."""

    __slots__ = ("session",)

    def __init__(
        self,
        session: Session,
        kind: CallType[Any, Any],
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        # What the base has, without the call; and so do those below.
        self.session = session
        self.channel = session.channel
        self.kind = kind
        self.message_id = message_id
        self.request = parse(kind.request, envelope)
        self.payload = payload

    @property
    def connection(self) -> Connection:
        return self.channel.connection

    @property
    def client_host(self) -> str:
        return self.channel.connection.peer

    @property
    def principal(self) -> str | None:
        return self.session.principal


class AppendCall(Call[AskedT]):
    """One that is answered when what it brought is committed: an `Append` by itself, so that there
    is no other object for it."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate")

    def __init__(
        self,
        session: Session,
        kind: CallType[Any, Any],
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        super().__init__(session, kind, message_id, envelope, payload)
        self.base_offset = self.append_time_ms = -1
        self.duplicate = False
