"""Requests wait for their own replies, for as long as they are told to."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.requests import requests
from penstock.model.errors import (
    Busy,
    ConnectionLost,
    InvalidRequest,
    NoReply,
    PenstockError,
    TimedOut,
    UnknownTopic,
)
from penstock.model.limits import REPLY_BYTES_MAX
from penstock.model.message_headers import CORRELATION, REPLY_TO
from penstock.net.channel import Channel
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import REPLY
from penstock.records import decode_messages
from tests.kit.broker.running import batch
from tests.kit.client.fake_broker import HOLD, FakeBroker


def asked(broker: FakeBroker, topic: str = "prices") -> list[dict[str, bytes | None]]:
    """The headers of the requests that came."""
    return [
        dict(message.headers)
        for _, data in broker.topics[topic][0].batches
        for message in decode_messages(data, topic, 0, 0)
    ]


async def token(broker: FakeBroker, number: int = 0) -> str:
    await broker.until(lambda: "prices" in broker.topics and len(asked(broker)) > number)
    found = asked(broker)[number][CORRELATION]
    assert found is not None
    return found.decode()


async def reply(broker: FakeBroker, to: str, payload: bytes | bytearray) -> None:
    request = pb.ReplyRequest(client=0, correlation=to)
    await broker.channels[-1].call(REPLY, request, [payload])


async def test_the_reply_is_returned(broker: FakeBroker, mq: Client) -> None:
    asking = asyncio.create_task(mq.request("prices", b"tea", headers=[("a", b"b")]))
    mine = await token(broker)
    await reply(broker, mine, batch([b"2.50"]))
    answer = await asking
    assert answer.value == b"2.50"
    assert answer.topic == "prices"
    [headers] = asked(broker)
    assert headers["a"] == b"b"
    assert headers[REPLY_TO] == b"0:0"
    assert len(mine) == 32
    with pytest.raises(NoReply, match="Nobody waits"):
        await reply(broker, mine, batch([b"again"]))


async def test_replies_find_their_requests(broker: FakeBroker, mq: Client) -> None:
    asking = [asyncio.create_task(mq.request("prices", b"%d" % number)) for number in range(10)]
    tokens = [await token(broker, number) for number in range(10)]
    assert len(set(tokens)) == 10
    order = {
        (message.value or b"", dict(message.headers)[CORRELATION])
        for _, data in broker.topics["prices"][0].batches
        for message in decode_messages(data, "prices", 0, 0)
    }
    for value, to in sorted(order, reverse=True):
        await reply(broker, (to or b"").decode(), batch([b"re " + value]))
    assert [(await task).value for task in asking] == [b"re %d" % number for number in range(10)]


async def test_no_reply_in_time(broker: FakeBroker, mq: Client) -> None:
    with pytest.raises(TimedOut, match=r"'prices' came within 0\.01 s"):
        await mq.request("prices", b"tea", timeout=0.01)
    with pytest.raises(NoReply):
        await reply(broker, await token(broker), batch([b"late"]))
    with pytest.raises(InvalidRequest, match="more than nothing"):
        await mq.request("prices", b"tea", timeout=0)


async def test_the_connection_ends_while_a_request_waits(broker: FakeBroker, mq: Client) -> None:
    asking = asyncio.create_task(mq.request("prices", b"tea"))
    await token(broker)
    broker.channels[-1].connection.abort()
    with pytest.raises(ConnectionLost, match="may have been served"):
        await asking


async def test_a_reply_may_come_before_the_acknowledgement(broker: FakeBroker, mq: Client) -> None:
    broker.script[pb.CALL_PRODUCE].append(HOLD)
    asking = asyncio.create_task(mq.request("prices", b"tea"))
    await broker.until(lambda: bool(broker.held))
    [mine] = mq._connection().requests._waiting
    await reply(broker, mine, batch([b"2.50"]))
    assert (await asking).value == b"2.50"
    broker.release()


async def test_what_cannot_be_published_is_told(broker: FakeBroker, mq: Client) -> None:
    broker.creates_topics = False
    with pytest.raises(UnknownTopic):
        await mq.request("prices", b"tea")
    assert not mq._connection().requests._waiting


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan")])
async def test_a_time_that_makes_no_sense_is_refused(mq: Client, timeout_s: float) -> None:
    with pytest.raises(InvalidRequest, match="must be more than nothing"):
        await mq.request("prices", b"tea", timeout=timeout_s)


async def test_requests_that_wait_are_bounded(
    broker: FakeBroker, mq: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "REQUESTS_WAITING_MAX", 1)
    asking = asyncio.create_task(mq.request("prices", b"tea"))
    await token(broker)
    with pytest.raises(Busy, match="send fewer"):
        await mq.request("prices", b"more")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert not mq._connection().requests._waiting


async def test_what_is_no_reply_leaves_the_request_waiting(broker: FakeBroker, mq: Client) -> None:
    """A broker, or whoever says that it is one, sends nonsense."""
    asking = asyncio.create_task(mq.request("prices", b"tea"))
    mine = await token(broker)
    for payload in (batch([b"1", b"2"]), b"x", b"", batch([b"x" * REPLY_BYTES_MAX])):
        with pytest.raises(PenstockError):
            await reply(broker, mine, payload)
    # Nor does the right word on another connection.
    other = mq._connection()
    with pytest.raises(NoReply):
        other.requests._on_reply(
            Channel.__new__(Channel),
            1,
            memoryview(pb.ReplyRequest(correlation=mine).SerializeToString()),
            memoryview(batch([b"x"])),
        )
    await reply(broker, mine, batch([b"2.50"]))
    assert (await asking).value == b"2.50"
