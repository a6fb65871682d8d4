"""Replies to requests: sent to the broker that the request names, which passes them on.

For consumers of every kind. Not who waits for them (`client.requests.requests`). The invariant:
when a reply was sent without an error, whoever asked has it.
"""

from __future__ import annotations

from time import time_ns
from typing import Final

from penstock.client.connection.routes import Routes
from penstock.client.producing.accumulator import Headers
from penstock.model.errors import BatchTooLarge, InvalidRequest
from penstock.model.limits import BROKER_ID_MAX, REPLY_BYTES_MAX
from penstock.model.message_headers import CORRELATION, REPLY_TO
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import REPLY
from penstock.records import BatchBuilder, Message

# Whoever asked hardly waits for longer.
_REPLY_S: Final = 10.0
_CLIENT_ID_MAX: Final = 2**64 - 1


class Replying:
    """What consumers of every kind have in common: their messages may be requests."""

    _routes: Routes

    async def reply(self, message: Message, value: bytes | None, headers: Headers = ()) -> None:
        """What `message.reply()` calls: answer the request that the message is. NoReply if nobody
        waits for it any more; InvalidRequest if it asks for no reply."""
        await _send(self._routes, message, value, headers)


async def _send(routes: Routes, message: Message, value: bytes | None, headers: Headers) -> None:
    broker_id, client_id, token = _asked(message)
    request = pb.ReplyRequest(client=client_id, correlation=token)
    builder = BatchBuilder(REPLY_BYTES_MAX)
    builder.append(time_ns() // 1_000_000, None, value, headers)
    batch = builder.build()
    if len(batch) > REPLY_BYTES_MAX:
        raise BatchTooLarge(
            f"The reply has {len(batch)} bytes, and {REPLY_BYTES_MAX} is the most: publish what is "
            "larger, and reply where it is."
        )
    channel = await routes.broker(broker_id)
    await channel.call(REPLY, request, [batch], timeout_s=_REPLY_S)


def _asked(message: Message) -> tuple[int, int, str]:
    """The broker, the client of it and the token that the message's headers name."""
    # The last ones: what the sender of the request may have copied from another comes before.
    found = {name: value for name, value in message.headers if name in (REPLY_TO, CORRELATION)}
    reply_to, token = found.get(REPLY_TO), found.get(CORRELATION)
    if reply_to is None or token is None:
        raise InvalidRequest("The message asks for no reply: it was not sent by `mq.request`.")
    try:
        broker, _, client = reply_to.decode().partition(":")
        broker_id, client_id, word = int(broker), int(client), token.decode()
    except ValueError:
        broker_id = client_id = -1
        word = ""
    if not (0 <= broker_id <= BROKER_ID_MAX and 0 <= client_id <= _CLIENT_ID_MAX):
        raise InvalidRequest(f"The message wants its reply at {reply_to!r}, which is no client.")
    return broker_id, client_id, word
