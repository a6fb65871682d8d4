"""One call of the peer, in the hands of whoever serves it: what is asked, and the way to answer.

Not how it travels (`net.channel`), nor who may ask. The invariants: a call is answered once, now or
later, unless it is one that asks for no answer; its payload lies in the buffer it was received in,
so it is there until its handler returns.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeVar

from google.protobuf.message import Message

from penstock.model.errors import PenstockError
from penstock.net.channel import Channel
from penstock.net.outbox import Buffer, FileSlice
from penstock.protocol.calls import CallType, parse

AskedT = TypeVar("AskedT")
"""What a call's request is to its handler: most often the message of its envelope."""

NOTHING: Final = memoryview(b"")


class Call(Generic[AskedT]):
    """Slots: there is one per request."""

    __slots__ = ("channel", "kind", "message_id", "payload", "request")

    request: AskedT

    def __init__(
        self,
        channel: Channel,
        kind: CallType[Any, Any],
        message_id: int,
        envelope: memoryview,
        payload: memoryview,
    ) -> None:
        """MalformedFrame, which then is the answer."""
        self.channel = channel
        self.kind = kind
        self.message_id = message_id
        self.request = parse(kind.request, envelope)
        self.payload = payload

    @property
    def name(self) -> str:
        return self.kind.name

    def answer(self, response: Message, payload: Buffer = b"") -> None:
        """After the connection's end this does nothing, and so do all other answers."""
        envelope = response.SerializeToString()
        self.channel.answer(self.message_id, self.kind.number, envelope, payload)

    def answer_slice(self, response: Message, part: FileSlice) -> None:
        """With a part of a file as the payload."""
        envelope = response.SerializeToString()
        self.channel.answer_slice(self.message_id, self.kind.number, envelope, part)

    def refuse(self, error: PenstockError) -> None:
        self.channel.answer_error(self.message_id, error)

    def leave_unanswered(self) -> None:
        """It asked for no answer."""
        self.channel.leave_unanswered()
