"""Calls in both directions on one connection, and every way in which they end."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

import pytest

from penstock.model.errors import (
    Busy,
    ConnectionLost,
    FrameTooLarge,
    InternalError,
    MalformedFrame,
    PenstockError,
    TimedOut,
    UnknownCall,
    UnknownTopic,
    UnsupportedVersion,
)
from penstock.model.limits import CALLS_IN_FLIGHT_MAX, FRAME_BYTES_MAX, MIB
from penstock.net.address import UnixAddress
from penstock.net.channel import Channel, connect_channel
from penstock.net.connection import Connection, Pause
from penstock.net.receive_pool import ReceivePool
from penstock.net.sockets import listen
from penstock.protocol import penstock_pb2 as pb
from penstock.protocol.calls import (
    FETCH,
    METADATA,
    PING,
    PRODUCE,
    error_envelope,
    error_from,
    parse,
)
from penstock.protocol.frame import (
    ANSWER_BIT,
    ERROR_TYPE,
    HEADER,
    MAGIC,
    MESSAGE_ID_MAX,
    VERSION,
    encode_head,
)
from tests.kit.net.frames import FrameDecoder
from tests.kit.net.sockets import (
    Held,
    Slice,
    answers_to,
    channel_pair,
    frame,
    read_to_end,
    serve_nothing,
    socket_pair,
    turns,
    until,
)

REQUEST = pb.FetchRequest(topic="orders", offset=7)


def echo(
    channel: Channel, number: int, message_id: int, envelope: memoryview, payload: memoryview
) -> None:
    """Answers a Fetch with its own payload and the offset asked for."""
    request = parse(FETCH.request, envelope)
    response = pb.FetchResponse(high_watermark=request.offset)
    channel.answer(message_id, number, response.SerializeToString(), payload)


async def close(*channels: Channel) -> None:
    for channel in channels:
        channel.close()
    await turns(10)


def serve_raw(serve: Held | None = None) -> tuple[Channel, socket.socket]:
    """A server's channel whose peer is a bare socket."""
    ours, theirs = socket_pair()
    connection = Connection(ours, pool=ReceivePool())
    channel = Channel(connection, serve or serve_nothing)
    connection.start(channel)
    return channel, theirs


# --- calls that succeed ----------------------------------------------------------------------


async def test_what_is_told_waits_for_no_answer() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    near.tell(FETCH.number, REQUEST.SerializeToString(), [b"one", b"two"])
    await until(lambda: len(held.ids) == 1)
    far.answer_error(held.ids[0], Busy("No room."))
    assert (near.pending_calls, far.calls_in_flight) == (0, 0)
    await far.call(PING, PING.request())
    await close(near, far)
    with pytest.raises(ConnectionLost):
        near.tell(FETCH.number, b"")


@pytest.mark.parametrize("size", [0, 10, 3 * MIB])
async def test_a_call_and_its_answer(size: int) -> None:
    """R-NET-2, R-NET-3."""
    near, far = channel_pair(serve_far=echo)
    data = os.urandom(size)
    response, payload = await near.call(FETCH, REQUEST, (data[:5], data[5:]))
    assert response.high_watermark == 7
    assert bytes(payload) == data
    assert (near.pending_calls, far.calls_in_flight) == (0, 0)
    await close(near, far)


async def test_many_calls_in_flight_are_answered_in_any_order() -> None:
    """R-NET-2."""
    held = Held()
    near, far = channel_pair(serve_far=held)
    calls = [asyncio.create_task(near.call(FETCH, REQUEST)) for _ in range(100)]
    await until(lambda: len(held.ids) == 100)
    assert (near.pending_calls, far.calls_in_flight) == (100, 100)
    for message_id in reversed(held.ids):
        envelope = pb.FetchResponse(high_watermark=message_id).SerializeToString()
        far.answer(message_id, FETCH.number, envelope)
    answers = await asyncio.gather(*calls)
    assert [response.high_watermark for response, _ in answers] == held.ids
    await close(near, far)


async def test_both_sides_call_at_once_with_the_same_ids() -> None:
    """R-NET-2: either side may call the other; a call is not taken for an answer."""
    near, far = channel_pair(serve_near=echo, serve_far=echo)
    calls = [channel.call(FETCH, REQUEST, (name,)) for channel, name in ((near, b"n"), (far, b"f"))]
    calls += [far.call(FETCH, REQUEST, (b"f2",)), near.call(FETCH, REQUEST, (b"n2",))]
    answers = await asyncio.gather(*calls)
    assert [bytes(payload) for _, payload in answers] == [b"n", b"f", b"f2", b"n2"]
    await close(near, far)


async def test_an_awaited_payload_may_be_kept_on_either_side() -> None:
    near, far = channel_pair(serve_near=echo, serve_far=echo)
    for channel in (near, far):
        answers = [await channel.call(FETCH, REQUEST, (b"%d" % n,)) for n in range(3)]
        assert [bytes(payload) for _, payload in answers] == [b"0", b"1", b"2"]
    await close(near, far)


async def test_a_call_without_a_future() -> None:
    near, far = channel_pair(serve_far=echo)
    answers: list[tuple[PenstockError | None, bytes]] = []

    def on_answer(error: PenstockError | None, envelope: memoryview, payload: memoryview) -> None:
        answers.append((error, bytes(payload)))

    near.start_call(FETCH.number, REQUEST.SerializeToString(), (b"data",), on_answer)
    dropped = near.start_call(FETCH.number, REQUEST.SerializeToString(), (), on_answer)
    near.cancel_call(dropped)
    await near.call(FETCH, REQUEST)
    assert answers == [(None, b"data")]
    await close(near, far)


async def test_every_channel_answers_a_ping() -> None:
    near, far = channel_pair()
    for channel in (near, far):
        response, payload = await channel.call(PING, pb.PingRequest())
        assert (response, bytes(payload)) == (pb.PingResponse(), b"")
    assert near.ping()
    await until(lambda: near.pending_calls == 0)
    await close(near, far)


async def test_a_call_and_an_answer_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(os.urandom(300_000))
    with path.open("rb") as file:
        part = Slice(file.fileno(), 100, 200_000)

        def serve(channel: Channel, number: int, message_id: int, *views: memoryview) -> None:
            assert [bytes(view) for view in views] == [b"file", part.read()]
            channel.answer_slice(message_id, number, b"", part)

        near, far = channel_pair(serve_far=serve)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        near.start_call(
            3, b"file", (), lambda *views: answer.set_result(bytes(views[2])), file_slice=part
        )
        assert await answer == part.read()
        assert far.calls_in_flight == 0
        await close(near, far)


async def test_a_call_may_ask_for_no_answer() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    near.start_call(PRODUCE.number, b"", (), lambda *_: None)
    await until(lambda: far.calls_in_flight == 1)
    far.leave_unanswered()
    assert far.calls_in_flight == 0
    await close(near, far)


async def test_ids_come_round_and_skip_those_in_use() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    near.start_call(FETCH.number, b"", (), lambda *_: None)
    near._next_id = MESSAGE_ID_MAX
    near.start_call(FETCH.number, b"", (), lambda *_: None)
    near.start_call(FETCH.number, b"", (), lambda *_: None)
    await until(lambda: len(held.ids) == 3)
    assert held.ids == [1, MESSAGE_ID_MAX, 2]
    await close(near, far)


# --- calls that fail -------------------------------------------------------------------------


async def test_an_error_raised_while_serving_is_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = iter([UnknownTopic("no topic 'orders'"), ZeroDivisionError("a bug")])

    def serve(*_: object) -> None:
        raise next(errors)

    near, far = channel_pair(serve_far=serve)
    with pytest.raises(UnknownTopic, match="no topic 'orders'"):
        await near.call(FETCH, REQUEST)
    with pytest.raises(InternalError):
        await near.call(FETCH, REQUEST)
    assert "a bug" in caplog.text
    assert far.calls_in_flight == 0
    await close(near, far)


async def test_a_call_that_is_not_answered_times_out() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    patient = asyncio.create_task(near.call(FETCH, REQUEST, timeout_s=60))
    with pytest.raises(TimedOut, match="did not answer in time"):
        await near.call(FETCH, REQUEST, timeout_s=0.001)
    assert near.pending_calls == 1
    await until(lambda: len(held.ids) == 2)
    for message_id in held.ids:  # the late answer is dropped, the other one found
        far.answer(message_id, FETCH.number, b"")
    await patient
    await close(near, far)


async def test_a_call_that_is_out_of_time_at_once_does_not_harm_the_next() -> None:
    """On uvloop a timer for now has no time that could be asked for."""
    near, far = channel_pair(serve_far=Held())
    errors: list[object] = []
    for _ in range(2):
        near.start_call(FETCH.number, b"", (), lambda *what: errors.append(what), timeout_s=0)
    await until(lambda: len(errors) == 2)
    assert near.pending_calls == 0
    await close(near, far)


async def test_a_cancelled_call_leaves_nothing_behind() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    call = asyncio.create_task(near.call(FETCH, REQUEST))
    await until(lambda: bool(held.ids))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert near.pending_calls == 0
    far.answer(held.ids[0], FETCH.number, b"")
    await near.call(PING, pb.PingRequest())
    await close(near, far)


async def test_pending_calls_end_with_the_connection() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    calls = [asyncio.create_task(near.call(FETCH, REQUEST)) for _ in range(3)]
    await until(lambda: len(held.ids) == 3)
    far.connection.abort()
    for call in calls:
        with pytest.raises(ConnectionLost):
            await call
    with pytest.raises(ConnectionLost, match="connect again"):
        await near.call(FETCH, REQUEST)
    far.answer(held.ids[0], FETCH.number, b"")  # to nobody
    await turns()


async def test_one_callback_that_fails_does_not_keep_others_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    near, far = channel_pair(serve_far=Held())
    told: list[PenstockError | None] = []
    near.start_call(FETCH.number, b"", (), lambda *_: 1 // 0)  # type: ignore[arg-type]
    near.start_call(FETCH.number, b"", (), lambda error, *_: told.append(error))
    near.connection.abort()
    await until(lambda: bool(told))
    assert isinstance(told[0], ConnectionLost)
    assert "ZeroDivisionError" in caplog.text
    await close(far)


async def test_a_call_that_fits_no_frame_is_not_sent() -> None:
    near, far = channel_pair()
    with pytest.raises(FrameTooLarge, match="Produce with a payload of"):
        await near.call(PRODUCE, pb.ProduceRequest(), (bytes(FRAME_BYTES_MAX),))
    assert near.pending_calls == 0
    await close(near, far)


async def test_what_the_client_does_not_serve_is_refused(tmp_path: Path) -> None:
    """`connect_channel` without `serve`: only Ping is answered."""
    address = UnixAddress(str(tmp_path / "s"))
    (listening,) = listen(address)
    near = await connect_channel(address)
    accepted, _ = listening.accept()
    accepted.setblocking(False)
    far_connection = Connection(accepted, pool=ReceivePool())
    far = Channel(far_connection, serve_nothing)
    far_connection.start(far)
    with pytest.raises(UnknownCall, match="Metadata cannot be called on this side"):
        await far.call(METADATA, pb.MetadataRequest())
    await close(near, far)
    listening.close()


# --- peers that do it wrong ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "error_class"),
    [
        (frame(b"", 9, kind=99), UnknownCall),
        (frame(b"", 9, kind=0), UnknownCall),
        (HEADER.pack(MAGIC, VERSION, 5, 9, 0), MalformedFrame),
        (HEADER.pack(MAGIC, VERSION, 5, 9, 4) + b"\xff\xff\xff\xff", MalformedFrame),
        (frame(b"", 9, kind=5, envelope=b"\xff\xff"), MalformedFrame),
    ],
    ids=["unknown type", "type 0", "no body", "envelope beyond body", "garbage envelope"],
)
async def test_what_is_wrong_within_a_frame_is_answered_and_the_connection_goes_on(
    wrong: bytes, error_class: type[PenstockError]
) -> None:
    """R-NET-1."""
    ours, theirs = socket_pair()
    connection = Connection(ours, pool=ReceivePool())
    channel = Channel(connection, echo)
    connection.start(channel)
    theirs.send(wrong + frame(b"", 10))
    refusal, pong = await answers_to(theirs, 2)
    assert (refusal.type, refusal.message_id) == (ERROR_TYPE, 9)
    assert type(error_from(refusal.envelope)) is error_class
    assert (pong.type, pong.message_id) == (PING.number | ANSWER_BIT, 10)
    assert channel.calls_in_flight == 0
    await close(channel)
    theirs.close()


@pytest.mark.parametrize(
    ("header", "error_class"),
    [
        (HEADER.pack(MAGIC, 2, 5, 9, 4), UnsupportedVersion),
        (HEADER.pack(MAGIC, VERSION, 5, 9, 0xFFFF_FFFF), FrameTooLarge),
    ],
    ids=["version", "length"],
)
async def test_a_header_that_is_wrong_is_answered_and_the_connection_closed(
    header: bytes, error_class: type[PenstockError]
) -> None:
    """R-NET-1."""
    _, theirs = serve_raw()
    theirs.send(header + bytes(10_000))
    (refusal,) = FrameDecoder().feed(await read_to_end(theirs))
    assert refusal.message_id == 9
    assert type(error_from(refusal.envelope)) is error_class
    theirs.close()
    await turns()


async def test_a_foreign_magic_closes_the_connection() -> None:
    """R-NET-1: there is nobody who would understand an answer."""
    _, theirs = serve_raw()
    theirs.send(b"GET / HTTP/1.1\r\n")
    assert await read_to_end(theirs) == b""
    theirs.close()
    await turns()


@pytest.mark.parametrize(
    ("answer", "error_class"),
    [
        (frame(b"", 1, kind=METADATA.number | ANSWER_BIT), MalformedFrame),
        (frame(b"", 1, kind=FETCH.number | ANSWER_BIT, envelope=b"\xff"), MalformedFrame),
        (frame(b"", 1, kind=ERROR_TYPE, envelope=b"\xff"), MalformedFrame),
        (HEADER.pack(MAGIC, VERSION, FETCH.number | ANSWER_BIT, 1, 0), MalformedFrame),
        (HEADER.pack(MAGIC, VERSION, ERROR_TYPE, 1, 0xFFFF_FFFF), FrameTooLarge),
        (encode_head(ERROR_TYPE, 1, error_envelope(Busy("later"))), Busy),
    ],
    ids=["other call", "garbage", "garbage error", "no body", "too large", "error"],
)
async def test_a_wrong_answer_fails_its_call(
    answer: bytes, error_class: type[PenstockError]
) -> None:
    channel, theirs = serve_raw()
    call = asyncio.create_task(channel.call(FETCH, REQUEST))
    await answers_to(theirs, 1)
    theirs.send(answer)
    with pytest.raises(error_class):
        await call
    assert channel.pending_calls == 0
    theirs.close()
    await close(channel)


async def test_answers_that_nobody_waits_for_are_ignored(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    channel, theirs = serve_raw()
    theirs.send(frame(b"", 77, kind=FETCH.number | ANSWER_BIT))
    theirs.send(frame(b"", 10))
    assert (await answers_to(theirs, 1))[0].message_id == 10
    assert "answer to Fetch that nobody waits for" in caplog.text
    theirs.close()
    await close(channel)


async def test_the_peers_reason_to_close_is_what_calls_fail_with() -> None:
    """A broker at its limit says so before anybody called: id 0 is about the connection."""
    channel, theirs = serve_raw()
    call = asyncio.create_task(channel.call(FETCH, REQUEST))
    theirs.send(encode_head(ERROR_TYPE, 0, error_envelope(Busy("full: try later"))))
    await answers_to(theirs, 1)
    theirs.close()
    with pytest.raises(Busy, match="full: try later"):
        await call


async def test_too_many_calls_in_flight_pause_reading() -> None:
    """R-NET-4: what one peer can make the broker hold is bounded."""
    held = Held()
    channel, theirs = serve_raw(held)
    sending = asyncio.create_task(
        asyncio.get_running_loop().sock_sendall(
            theirs, frame(b"", kind=FETCH.number) * (CALLS_IN_FLIGHT_MAX + 500)
        )
    )
    await until(lambda: channel.connection.is_paused_for(Pause.CALLS_IN_FLIGHT))
    await turns()
    assert len(held.ids) == channel.calls_in_flight == CALLS_IN_FLIGHT_MAX
    for message_id in held.ids[: CALLS_IN_FLIGHT_MAX // 2]:
        channel.answer(message_id, FETCH.number, b"")
    await until(lambda: len(held.ids) == CALLS_IN_FLIGHT_MAX + 500)
    await sending
    await close(channel)
    theirs.close()


# --- the end ---------------------------------------------------------------------------------


async def test_drain_answers_what_was_taken_and_takes_no_more() -> None:
    held = Held()
    near, far = channel_pair(serve_far=held)
    first = asyncio.create_task(near.call(FETCH, REQUEST))
    await until(lambda: bool(held.ids))
    far.drain()
    second = asyncio.create_task(near.call(FETCH, REQUEST))
    await turns()
    assert len(held.ids) == 1
    far.answer(held.ids[0], FETCH.number, b"")
    await first
    with pytest.raises(ConnectionLost):
        await second
    await until(lambda: near.connection.is_closed and far.connection.is_closed)


async def test_the_owner_hears_of_reads_and_of_the_end() -> None:
    ours, theirs = socket_pair()
    heard: list[object] = []
    connection = Connection(ours, pool=ReceivePool())
    channel = Channel(
        connection,
        Held(),
        on_read_end=lambda: heard.append("read"),
        on_closed=lambda which, error: heard.append((which, error)),
    )
    connection.start(channel)
    theirs.send(frame(b"", kind=FETCH.number))
    await until(lambda: heard == ["read"])
    theirs.close()
    await until(lambda: len(heard) == 2)
    assert heard[1] == (channel, None)
