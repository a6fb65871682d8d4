"""The frame's bytes, its checks, and the decoder on top."""

from __future__ import annotations

import struct

import pytest

from penstock.model.errors import FrameTooLarge, MalformedFrame, UnsupportedVersion
from penstock.model.limits import ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX
from penstock.protocol.frame import (
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    encode_head,
    measure,
    peek,
    split,
)
from tests.kit.net.frames import FrameDecoder


def test_the_header_has_twelve_bytes_in_the_published_order() -> None:
    """R-NET-1: magic 2, version 1, type 1, message id 4, body length 4, big-endian."""
    head = encode_head(4, 0x01020304, b"env", payload_bytes=5)
    assert HEADER_BYTES == 12
    assert head.hex(" ") == "50 53 01 04 01 02 03 04 00 00 00 0c 00 00 00 03 65 6e 76"


def test_a_frame_comes_apart_as_it_was_put_together() -> None:
    whole = memoryview(encode_head(0x84, 7, b"envelope", 7) + b"payload")
    assert measure(whole, 0, len(whole)) == len(whole)
    kind, message_id, envelope, payload = split(whole)
    assert (kind, message_id, bytes(envelope), bytes(payload)) == (0x84, 7, b"envelope", b"payload")
    assert peek(whole) == (0x84, 7)


def test_a_frame_is_measured_where_it_stands() -> None:
    first, second = encode_head(1, 1, b"a"), encode_head(2, 2, b"bb")
    view = memoryview(first + second)
    assert measure(view, len(first), len(view)) == len(second)


@pytest.mark.parametrize("beginning", [b"\x00", b"P\x00", b"GET / HT", b"\x51\x53", b"S"])
def test_a_wrong_magic_is_noticed_in_the_first_bytes(beginning: bytes) -> None:
    """R-NET-1: foreign magic is refused, as soon as it can be seen."""
    with pytest.raises(MalformedFrame, match="right port"):
        measure(memoryview(beginning), 0, len(beginning))


def test_a_header_that_is_not_whole_needs_more_bytes() -> None:
    head = memoryview(encode_head(1, 1, b""))
    assert [measure(head, 0, end) for end in range(HEADER_BYTES)] == [0] * HEADER_BYTES
    assert measure(head, 0, HEADER_BYTES) == HEADER_BYTES + 4


@pytest.mark.parametrize("version", [0, 2, 255])
def test_an_unknown_version_is_refused(version: int) -> None:
    """R-NET-1."""
    header = memoryview(HEADER.pack(MAGIC, version, 1, 1, 4))
    with pytest.raises(UnsupportedVersion, match=f"version {version}"):
        measure(header, 0, len(header))


@pytest.mark.parametrize("body_bytes", [FRAME_BYTES_MAX - HEADER_BYTES + 1, 0xFFFF_FFFF])
def test_a_frame_over_the_limit_is_refused_by_its_header(body_bytes: int) -> None:
    """R-NET-1."""
    header = memoryview(HEADER.pack(MAGIC, VERSION, 1, 1, body_bytes))
    with pytest.raises(FrameTooLarge, match=str(FRAME_BYTES_MAX)):
        measure(header, 0, len(header))


def test_a_frame_at_the_limit_is_accepted() -> None:
    header = memoryview(HEADER.pack(MAGIC, VERSION, 1, 1, 100 - HEADER_BYTES))
    assert measure(header, 0, len(header), frame_bytes_max=100) == 100
    with pytest.raises(FrameTooLarge):
        measure(header, 0, len(header), frame_bytes_max=99)


@pytest.mark.parametrize("body_bytes", [0, 1, 3])
def test_a_body_too_short_for_the_envelope_length_is_malformed(body_bytes: int) -> None:
    whole = memoryview(HEADER.pack(MAGIC, VERSION, 1, 1, body_bytes) + bytes(body_bytes))
    assert measure(whole, 0, len(whole)) == len(whole)
    with pytest.raises(MalformedFrame, match=f"has {body_bytes} bytes"):
        split(whole)


@pytest.mark.parametrize("envelope_bytes", [5, 0xFFFF_FFFF])
def test_an_envelope_longer_than_the_frame_is_malformed(envelope_bytes: int) -> None:
    whole = HEADER.pack(MAGIC, VERSION, 1, 1, 8) + struct.pack(">I", envelope_bytes) + b"only"
    with pytest.raises(MalformedFrame, match=f"has {envelope_bytes} bytes"):
        split(memoryview(whole))


def test_an_envelope_over_the_limit_is_refused() -> None:
    whole = encode_head(1, 1, bytes(ENVELOPE_BYTES_MAX + 1))
    with pytest.raises(FrameTooLarge, match=str(ENVELOPE_BYTES_MAX)):
        split(memoryview(whole))


def test_the_decoder_gives_frames_that_outlive_the_input() -> None:
    decoder = FrameDecoder()
    data = bytearray(encode_head(1, 1, b"one") + encode_head(2, 2, b"two", 3) + b"xyz")
    frames = decoder.feed(data[:-1])
    assert [bytes(frame.envelope) for frame in frames] == [b"one"]
    frames += decoder.feed(data[-1:])
    data[:] = bytes(len(data))
    assert [(f.type, f.message_id, bytes(f.payload)) for f in frames] == [
        (1, 1, b""),
        (2, 2, b"xyz"),
    ]
    assert decoder.pending_bytes == 0
