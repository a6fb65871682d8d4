"""Requests: messages that are answered by whoever reads them, on one of this client's connections.

The message goes through its topic like any other; the reply does not, it comes from the broker that
the request names (`client.requests.replies` sends it there). The invariants: a reply reaches at
most one request, and only one who was given the request can know its token; a request ends by its
reply, its time, or the end of the connection that the reply would come on.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from penstock.client.connection.links import Links
from penstock.client.producing.accumulator import Headers
from penstock.model.errors import (
    Busy,
    ConnectionLost,
    InvalidRequest,
    NoReply,
    PenstockError,
    TimedOut,
)
from penstock.model.limits import REPLY_BYTES_MAX, REQUESTS_WAITING_MAX
from penstock.model.message_headers import CORRELATION, REPLY_TO
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import REPLY, parse
from penstock.records import Message, decode_messages

Publish = Callable[[Headers], Awaitable[object]]
"""Publishes the request with these headers."""

_ANSWER: Final = pb.ReplyResponse().SerializeToString()


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    topic: str
    channel: Channel
    """On which the reply comes."""
    reply: asyncio.Future[Message]


class Requests:
    """Those of one client that wait."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._waiting: dict[str, _Waiting] = {}
        links.serve(REPLY.number, self._on_reply)
        links.watch(self._on_closed)

    async def request(
        self, topic: str, headers: Headers | None, timeout_s: float, publish: Publish
    ) -> Message:
        """The reply. TimedOut if none came; ConnectionLost if it can come no more."""
        if not timeout_s > 0:  # nor what is no number
            raise InvalidRequest(f"The timeout is {timeout_s} s: it must be more than nothing.")
        if len(self._waiting) >= REQUESTS_WAITING_MAX:
            raise Busy(f"{REQUESTS_WAITING_MAX} requests wait for replies: send fewer at once.")
        token = secrets.token_hex(16)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ask(topic, token, headers or (), publish)
        except TimeoutError:
            raise TimedOut(
                f"No reply to the request to {topic!r} came within {timeout_s:g} s: see whether "
                "somebody serves it, or give it more time."
            ) from None
        finally:
            self._waiting.pop(token, None)

    async def _ask(self, topic: str, token: str, headers: Headers, publish: Publish) -> Message:
        channel = await self._links.any_broker()
        broker_id, client_id = self._links.identity(channel)
        reply: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[token] = _Waiting(topic, channel, reply)
        named = (
            (REPLY_TO, f"{broker_id}:{client_id}".encode()),
            (CORRELATION, token.encode()),
        )
        publishing = asyncio.ensure_future(publish((*headers, *named)))
        # Where the reply comes first, the acknowledgement may have been lost with a leader.
        publishing.add_done_callback(_seen)
        try:
            await asyncio.wait((publishing, reply), return_when=asyncio.FIRST_COMPLETED)
            if not reply.done():
                await publishing
            return await reply
        finally:
            publishing.cancel()

    def _on_reply(
        self, channel: Channel, message_id: int, envelope: memoryview, payload: memoryview
    ) -> None:
        request = parse(pb.ReplyRequest, envelope)
        waiting = self._waiting.get(request.correlation)
        if waiting is None or waiting.channel is not channel or waiting.reply.done():
            raise NoReply("Nobody waits for this reply any more.")
        if len(payload) > REPLY_BYTES_MAX:
            raise InvalidRequest(f"A reply has {REPLY_BYTES_MAX} bytes at most.")
        messages = decode_messages(payload, waiting.topic, -1, 0)
        if len(messages) != 1:
            raise InvalidRequest(f"A reply is one message, not {len(messages)}.")
        waiting.reply.set_result(messages[0])
        channel.answer(message_id, REPLY.number, _ANSWER)

    def _on_closed(self, channel: Channel, _error: PenstockError | None) -> None:
        for waiting in self._waiting.values():
            if waiting.channel is channel and not waiting.reply.done():
                waiting.reply.set_exception(
                    ConnectionLost(
                        f"The connection on which the reply to a request to {waiting.topic!r} was "
                        "to come is lost: the request may have been served; ask again if it may be "
                        "served twice."
                    )
                )
                _seen(waiting.reply)


def _seen(ended: asyncio.Future[Any]) -> None:
    """Whoever waited for it may have gone."""
    if not ended.cancelled():
        ended.exception()
