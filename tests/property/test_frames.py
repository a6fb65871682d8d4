"""Frames made by chance: what is right comes through, what is wrong is a typed error, never a hang.

Every stream is fed whole and byte by byte, and both ways must say the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import MalformedFrame, PenstockError, ProtocolError
from penstock.net.channel import Channel
from penstock.net.connection import Connection
from penstock.net.receive_pool import ReceivePool
from penstock.protocol.calls import CALLS, error_envelope, error_from, parse
from penstock.protocol.frame import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    Frame,
    encode_head,
    measure,
)
from tests.kit.net.frames import FrameDecoder

FRAME_BYTES_MAX = 1000

kinds = st.integers(0, 255)
message_ids = st.integers(0, 0xFFFF_FFFF)
good_frames = st.builds(
    lambda kind, message_id, envelope, payload: (
        encode_head(kind, message_id, envelope, len(payload)) + payload
    ),
    kinds,
    message_ids,
    st.binary(max_size=50),
    st.binary(max_size=50),
)
lengths = st.one_of(
    st.sampled_from([0, 1, 3, 4, FRAME_BYTES_MAX - HEADER_BYTES, FRAME_BYTES_MAX, 0xFFFF_FFFF]),
    st.integers(0, 100),
)
# Any field may be wrong: magic, version, type, length, the envelope's length, the bytes after it.
wrong_frames = st.builds(
    lambda magic, version, kind, message_id, length, rest: (
        HEADER.pack(magic, version, kind, message_id, length) + rest
    ),
    st.sampled_from([MAGIC, MAGIC, MAGIC, 0, 0x5054, 0xFFFF]),
    st.sampled_from([VERSION, VERSION, VERSION, 0, 2, 255]),
    kinds,
    message_ids,
    lengths,
    st.binary(max_size=60),
)
streams = st.lists(st.one_of(good_frames, wrong_frames, st.binary(max_size=20)), max_size=6).map(
    b"".join
)

Outcome = tuple[list[tuple[int, int, bytes, bytes]], type[ProtocolError] | None]


def plain(frames: list[Frame]) -> list[tuple[int, int, bytes, bytes]]:
    return [(f.type, f.message_id, bytes(f.envelope), bytes(f.payload)) for f in frames]


def feed(pieces: list[bytes]) -> Outcome:
    """What a decoder says of a stream cut so: the frames of the pieces before the first error
    (those of its own piece are lost with it), and the error."""
    decoder = FrameDecoder(FRAME_BYTES_MAX)
    frames: list[Frame] = []
    for piece in pieces:
        try:
            frames += decoder.feed(piece)
        except ProtocolError as error:
            return plain(frames), type(error)
        assert decoder.pending_bytes <= FRAME_BYTES_MAX
    return plain(frames), None


@given(st.lists(good_frames, max_size=8), st.data())
def test_good_frames_come_through_however_they_are_cut(
    frames: list[bytes], data: st.DataObject
) -> None:
    """R-NET-1."""
    stream = b"".join(frames)
    whole, error = feed([stream])
    assert error is None
    assert [
        encode_head(kind, message_id, envelope, len(payload)) + payload
        for kind, message_id, envelope, payload in whole
    ] == frames
    assert feed([bytes([byte]) for byte in stream]) == (whole, None)
    cut = data.draw(st.integers(0, len(stream)))
    assert feed([stream[:cut], stream[cut:]]) == (whole, None)


@given(streams)
@settings(max_examples=300)
def test_any_bytes_are_frames_or_a_typed_error(stream: bytes) -> None:
    """R-NET-1: never another exception, never more kept than one frame; and both ways agree."""
    _, error_whole = feed([stream])
    _, error_bytewise = feed([bytes([byte]) for byte in stream])
    assert error_whole == error_bytewise


@given(wrong_frames)
@settings(max_examples=300)
def test_a_length_is_believed_only_within_the_limit(data: bytes) -> None:
    """R-NET-1: length 0 and 4 GiB; measured again from every prefix."""
    view = memoryview(data)
    for end in range(len(data) + 1):
        try:
            frame_bytes = measure(view, 0, end, FRAME_BYTES_MAX)
        except ProtocolError:
            break
        assert frame_bytes == 0 or (end >= HEADER_BYTES and frame_bytes <= FRAME_BYTES_MAX)


@given(st.sampled_from(sorted(CALLS)), st.binary(max_size=200))
@settings(max_examples=300)
def test_a_garbage_envelope_is_a_message_or_malformed(number: int, envelope: bytes) -> None:
    """R-NET-3."""
    for message_class in (CALLS[number].request, CALLS[number].response):
        with contextlib.suppress(MalformedFrame):
            parse(message_class, envelope)


@given(st.text())
def test_errors_travel_with_any_text(message: str) -> None:
    sent = PenstockError(message)
    received = error_from(error_envelope(sent))
    assert received.message == sent.message.encode(errors="replace").decode()


def serve(
    channel: Channel, number: int, message_id: int, envelope: memoryview, payload: memoryview
) -> None:
    """As the broker does: the envelope must parse; the payload, garbage or not, is sent back."""
    parse(CALLS[number].request, envelope)
    channel.answer(message_id, number, b"", payload)


async def converse(pieces: list[bytes]) -> bytes:
    """All that a channel answers to a stream cut so, up to the end of the connection."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    connection = Connection(ours, pool=ReceivePool())
    connection.start(
        Channel(
            connection,
            serve,
            on_closed=lambda *_: ended.set_result(None),
            frame_bytes_max=FRAME_BYTES_MAX,
        )
    )
    for piece in pieces:
        with contextlib.suppress(OSError):  # it may have hung up on us already
            theirs.send(piece)
        await asyncio.sleep(0)
    with contextlib.suppress(OSError):
        theirs.shutdown(socket.SHUT_WR)
    answers = bytearray()
    async with asyncio.timeout(5):
        while chunk := await loop.sock_recv(theirs, 65536):
            answers += chunk
        theirs.close()
        await ended
    return bytes(answers)


@given(streams)
@settings(max_examples=100, deadline=None)
def test_a_channel_answers_or_closes(stream: bytes) -> None:
    """R-NET-1: over a real socket, whole and byte by byte: the same answers, then the end."""
    whole = asyncio.run(converse([stream]))
    assert asyncio.run(converse([bytes([byte]) for byte in stream])) == whole
    answers = FrameDecoder().feed(whole)
    assert all(answer.type >= 0x80 for answer in answers)
