"""One request of a Kafka client on its way through the broker, and how it is answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Protocol

from penstock.broker.kafka.fetch_sessions import FetchSessions
from penstock.broker.kafka.share_sessions import ShareSessions
from penstock.model.errors import PenstockError
from penstock.net.connection import Connection
from penstock.protocol.kafka.apis import Api
from penstock.protocol.kafka.codec import Payload
from penstock.protocol.kafka.errors import code_of
from penstock.protocol.kafka.schema import wire_of

Parts = list[bytearray | Payload]


class Answers(Protocol):
    """Whoever sends the answers, in the order of the requests: the session."""

    @property
    def client_host(self) -> str: ...

    @property
    def connection(self) -> Connection: ...

    @property
    def is_open(self) -> bool: ...

    @property
    def is_reader(self) -> bool: ...

    @property
    def fetch_sessions(self) -> FetchSessions: ...

    @property
    def share_sessions(self) -> ShareSessions: ...

    @property
    def principal(self) -> str | None: ...

    def answered(self, call: Call, response: object) -> None: ...

    def unanswerable(self, call: Call, error: PenstockError) -> None: ...

    def on_close(self, waiter: object, gone: Callable[[], None]) -> None: ...

    def wait(
        self,
        waiter: object,
        gone: Callable[[], None],
        wait_s: float,
        time_up: Callable[[], None],
    ) -> None: ...

    def forget(self, waiter: object) -> None: ...


class Call:
    """Answered exactly once, in one of the three ways. Slots: there is one per request."""

    __slots__ = (
        "api",
        "client_id",
        "correlation_id",
        "ends_connection",
        "parts",
        "request",
        "session",
        "version",
    )

    def __init__(
        self,
        session: Answers,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str,
        request: Any,
    ) -> None:
        self.session = session
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request = request
        # The answer's bytes once there is one; empty where none is sent.
        self.parts: Parts | None = None
        self.ends_connection = False

    @property
    def client_host(self) -> str:
        return self.session.client_host

    @property
    def name(self) -> str:
        return f"Kafka's {self.api.name}"

    @property
    def connection(self) -> Connection:
        return self.session.connection

    @property
    def principal(self) -> str | None:
        return self.session.principal

    def answer(self, response: object) -> None:
        self.session.answered(self, response)

    def answer_nothing(self) -> None:
        """The client asked not to be answered (acks 0)."""
        self.session.answered(self, None)

    def refuse(self, error: PenstockError) -> None:
        """Answer with nothing but the error, where the response has a place for it."""
        response = self.api.response
        names = {
            field.name for field in fields(response) if wire_of(field.metadata).is_in(self.version)
        }
        if "error_code" not in names:
            self.disconnect(error)
            return
        answer = response(error_code=code_of(error))
        if "error_message" in names:
            answer.error_message = error.message
        self.answer(answer)

    def disconnect(self, error: PenstockError) -> None:
        """No answer could say what is wrong: the end of the connection does, after the answers of
        the requests before."""
        self.session.unanswerable(self, error)
