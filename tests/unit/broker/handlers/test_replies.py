"""Replies are passed on to the client that asked, and to nobody else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from penstock.broker.broker import Broker
from penstock.broker.handlers import replies
from penstock.model.errors import (
    BatchTooLarge,
    Busy,
    CorruptBatch,
    InvalidRequest,
    MalformedFrame,
    NoReply,
    PenstockError,
    UnknownCall,
)
from penstock.model.limits import REPLY_BYTES_MAX
from penstock.net.address import parse_address
from penstock.net.channel import Channel, connect_channel
from penstock.protocol import calls
from penstock.protocol import penstock_pb2 as pb
from penstock.records import BatchBuilder, Codec, decode_messages
from tests.kit.broker.running import RawClient, batch, running


class Asking:
    """A client that gets replies; `refusal` is what it says to them."""

    def __init__(self) -> None:
        self.got: list[tuple[str, bytes | None]] = []
        self.refusal: PenstockError | None = None
        self.is_silent = False
        self.channel: Channel
        self.id = 0

    def serve(
        self, channel: Channel, number: int, at: int, envelope: memoryview, payload: memoryview
    ) -> None:
        assert number == calls.REPLY.number
        request = calls.parse(pb.ReplyRequest, envelope)
        [message] = decode_messages(payload, "", 0, 0)
        self.got.append((request.correlation, message.value))
        if self.is_silent:
            return
        if self.refusal is not None:
            raise self.refusal
        channel.answer(at, number, b"")


@contextlib.asynccontextmanager
async def asking(broker: Broker) -> AsyncIterator[Asking]:
    client = Asking()
    client.channel = await connect_channel(parse_address(broker.addresses[0]), client.serve)
    hello, _ = await client.channel.call(calls.HELLO, pb.HelloRequest(client_name="asks"))
    client.id = hello.client
    try:
        yield client
    finally:
        client.channel.close()


async def answer(client: RawClient, to: int, payload: bytes | bytearray) -> None:
    request = pb.ReplyRequest(client=to, correlation="token")
    await client.channel.call(calls.REPLY, request, [payload])


async def test_a_reply_reaches_who_asked() -> None:
    async with running() as (broker, client), asking(broker) as one, asking(broker) as other:
        await answer(client, one.id, batch([b"hello"]))
        assert one.got == [("token", b"hello")]
        assert other.got == []
        # What is in the receive buffer by then is something else.
        await asyncio.gather(*(answer(client, other.id, batch([b"%d" % n])) for n in range(100)))
        assert sorted(int(value or b"") for _, value in other.got) == list(range(100))


async def test_who_asked_may_have_gone() -> None:
    async with running() as (broker, client):
        with pytest.raises(NoReply, match="is gone"):
            await answer(client, 1, batch([b"x"]))
        async with asking(broker) as one:
            one.refusal = NoReply("Nobody waits for this reply any more.")
            with pytest.raises(NoReply, match="any more"):
                await answer(client, one.id, batch([b"x"]))
            one.is_silent = True
            answering = asyncio.create_task(answer(client, one.id, batch([b"x"])))
            while len(one.got) < 2:
                await asyncio.sleep(0)
            one.channel.close()
            with pytest.raises(NoReply, match="is gone"):
                await answering
        with pytest.raises(NoReply, match="is gone"):
            await answer(client, one.id, batch([b"x"]))


async def test_a_client_that_serves_no_replies_says_so() -> None:
    async with running() as (_, client):
        hello, _ = await client.channel.call(calls.HELLO, pb.HelloRequest())
        with pytest.raises(UnknownCall):
            await answer(client, hello.client, batch([b"x"]))


async def test_what_is_no_reply_is_not_passed_on() -> None:
    compressed = BatchBuilder(1000, codec=Codec.GZIP)
    compressed.append(0, None, b"x" * 100)
    damaged = batch([b"x"])
    damaged[-1] ^= 1
    wrong: list[tuple[bytes | bytearray, type[PenstockError]]] = [
        (batch([b"1", b"2"]), InvalidRequest),
        (compressed.build(), InvalidRequest),
        (damaged, CorruptBatch),
        (b"", PenstockError),
        (batch([b"x" * REPLY_BYTES_MAX]), BatchTooLarge),
    ]
    async with running() as (broker, client), asking(broker) as one:
        for payload, error in wrong:
            with pytest.raises(error):
                await answer(client, one.id, payload)
        assert one.got == []


async def test_an_envelope_that_is_none_is_refused() -> None:
    outcome: asyncio.Future[PenstockError | None] = asyncio.get_running_loop().create_future()
    async with running() as (_, client):
        client.channel.start_call(
            calls.REPLY.number, b"\xff\xff", (), lambda error, *_: outcome.set_result(error)
        )
        assert isinstance(await outcome, MalformedFrame)


async def test_replies_to_a_client_that_does_not_answer_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replies, "REPLIES_UNANSWERED_MAX", 3)
    async with running() as (broker, client), asking(broker) as one:
        one.is_silent = True
        waiting = [asyncio.create_task(answer(client, one.id, batch([b"x"]))) for _ in range(3)]
        while len(one.got) < 3:
            await asyncio.sleep(0)
        with pytest.raises(Busy, match="does not keep up"):
            await answer(client, one.id, batch([b"x"]))
        one.channel.close()
        for task in waiting:
            with pytest.raises(NoReply):
                await task
