"""Replies: to whom they are sent, and what asks for none."""

from __future__ import annotations

import pytest

from penstock.client.client import Client
from penstock.model.errors import BatchTooLarge, ConnectionLost, InvalidRequest, NoReply
from penstock.model.limits import REPLY_BYTES_MAX
from penstock.model.message_headers import CORRELATION, REPLY_TO
from penstock.protocol import penstock_pb2 as pb
from penstock.records import Message
from tests.kit.client.fake_broker import FakeBroker

REQUEST = [(REPLY_TO, b"0:77"), (CORRELATION, b"token")]


async def received(mq: Client, *headers: tuple[str, bytes]) -> Message:
    await mq.publish("prices", b"tea", headers=headers)
    messages: list[Message] = []
    consumer = mq.consumer("prices")
    while not messages or messages[-1].headers != headers:
        messages += await consumer.fetch()
    return messages[-1]


async def test_a_reply_goes_to_the_broker_and_client_that_the_request_names(
    broker: FakeBroker, mq: Client
) -> None:
    async with FakeBroker(broker_id=5) as other:
        broker.peers[5] = other.address
        message = await received(mq, (REPLY_TO, b"5:77"), (CORRELATION, b"token"))
        await message.reply(b"2.50", (("currency", b"EUR"),))
        [(_, request)] = [call for call in other.calls if call[0] == pb.CALL_REPLY]
        assert (request.client, request.correlation) == (77, "token")
        assert other.replies == [(b"2.50", (("currency", b"EUR"),))]
        assert broker.count(pb.CALL_REPLY) == 0


async def test_nobody_waits_any_more(broker: FakeBroker, mq: Client) -> None:
    broker.script[pb.CALL_REPLY].append(NoReply("Nobody waits."))
    message = await received(mq, *REQUEST)
    with pytest.raises(NoReply):
        await message.reply(b"2.50")


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ([], "asks for no reply"),
        ([(REPLY_TO, b"0:1")], "asks for no reply"),
        ([(CORRELATION, b"x")], "asks for no reply"),
        ([(REPLY_TO, b"nobody"), (CORRELATION, b"x")], "which is no client"),
        ([(REPLY_TO, b"-1:2"), (CORRELATION, b"x")], "which is no client"),
        ([(REPLY_TO, b"1:99999999999999999999999"), (CORRELATION, b"x")], "which is no client"),
        ([(REPLY_TO, b"\xff"), (CORRELATION, b"x")], "which is no client"),
        ([(REPLY_TO, b"0:1"), (CORRELATION, b"\xff")], "which is no client"),
    ],
)
async def test_a_message_that_asks_for_no_reply(
    broker: FakeBroker, mq: Client, headers: list[tuple[str, bytes]], said: str
) -> None:
    message = await received(mq, *headers)
    with pytest.raises(InvalidRequest, match=said):
        await message.reply(b"x")
    assert broker.count(pb.CALL_REPLY) == 0


async def test_a_broker_that_is_gone_gets_no_replies(mq: Client) -> None:
    message = await received(mq, (REPLY_TO, b"9:1"), (CORRELATION, b"x"))
    with pytest.raises(ConnectionLost, match="Broker 9"):
        await message.reply(b"x")


async def test_a_reply_is_not_too_large(broker: FakeBroker, mq: Client) -> None:
    message = await received(mq, *REQUEST)
    with pytest.raises(BatchTooLarge, match="publish what is larger"):
        await message.reply(b"x" * REPLY_BYTES_MAX)
    await message.reply(b"x" * (REPLY_BYTES_MAX - 1000))
    await message.reply(None)
    assert broker.replies[-1] == (None, ())
