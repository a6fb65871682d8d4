"""The frame: a 12-byte header and a body, as functions from bytes to fields and back.

Not here: sockets and buffers (`net.connection`) and what the envelopes mean (`protocol.calls`).
Invariant: nothing is believed before it is checked, and no check needs more than the header; so
a hostile frame is refused before a byte of its body is stored.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from penstock.model.errors import FrameTooLarge, MalformedFrame, UnsupportedVersion
from penstock.model.limits import ENVELOPE_BYTES_MAX, FRAME_BYTES_MAX

# R-NET-1: magic, version, type, message id, body length.
HEADER: Final = Struct(">HBBII")
HEADER_BYTES: Final = HEADER.size
MAGIC: Final = 0x5053
VERSION: Final = 1
# An answer's type is its call's type with this bit set.
ANSWER_BIT: Final = 0x80
# The answer that carries an Error, whatever the call was.
ERROR_TYPE: Final = 0x80
# No call has this id: an error that answers it concerns the whole connection.
CONNECTION_MESSAGE_ID: Final = 0
MESSAGE_ID_MAX: Final = 0xFFFF_FFFF

_MAGIC_BYTES: Final = MAGIC.to_bytes(2, "big")
_ENVELOPE_LENGTH_BYTES: Final = 4
# The header and the envelope's length, which every well-formed body begins with.
_PREFIX: Final = Struct(">HBBIII")
_PREFIX_BYTES: Final = _PREFIX.size


class Frame(NamedTuple):
    """One frame, taken apart. A tuple because one is made for every frame on the hot path."""

    type: int
    message_id: int
    envelope: memoryview
    payload: memoryview


def measure(view: memoryview, start: int, end: int, frame_bytes_max: int = FRAME_BYTES_MAX) -> int:
    """The whole length of the frame at `start`, or 0 if more bytes are needed to tell."""
    if end - start < HEADER_BYTES:
        _check_magic(bytes(view[start : min(end, start + 2)]))
        return 0
    magic, version, _, _, body_bytes = HEADER.unpack_from(view, start)
    if magic != MAGIC:
        _check_magic(bytes(view[start : start + 2]))
    if version != VERSION:
        raise UnsupportedVersion(
            f"The frame has protocol version {version}: this side speaks version {VERSION}."
        )
    frame_bytes: int = HEADER_BYTES + body_bytes
    if frame_bytes > frame_bytes_max:
        raise FrameTooLarge(
            f"The frame has {frame_bytes} bytes: {frame_bytes_max} is the limit, send less at once."
        )
    return frame_bytes


def split(frame: memoryview) -> Frame:
    """Take a whole frame, as long as `measure` said, apart. Nothing is copied."""
    if len(frame) < _PREFIX_BYTES:
        raise MalformedFrame(
            f"The frame's body has {len(frame) - HEADER_BYTES} bytes: the envelope's length alone"
            f" takes {_ENVELOPE_LENGTH_BYTES}."
        )
    _, _, kind, message_id, _, envelope_bytes = _PREFIX.unpack_from(frame)
    payload_start = _PREFIX_BYTES + envelope_bytes
    if payload_start > len(frame):
        raise MalformedFrame(
            f"The envelope has {envelope_bytes} bytes by its length, but the frame only has"
            f" {len(frame) - _PREFIX_BYTES} left."
        )
    if envelope_bytes > ENVELOPE_BYTES_MAX:
        raise FrameTooLarge(
            f"The envelope has {envelope_bytes} bytes: {ENVELOPE_BYTES_MAX} is the limit."
        )
    # Past the Python-level constructor of a NamedTuple, which takes twice as long.
    return tuple.__new__(
        Frame, (kind, message_id, frame[_PREFIX_BYTES:payload_start], frame[payload_start:])
    )


def peek(frame: memoryview, start: int = 0) -> tuple[int, int]:
    """The type and the message id of a frame whose header is there, even if the rest is wrong."""
    _, _, kind, message_id, _ = HEADER.unpack_from(frame, start)
    return kind, message_id


def encode_head(kind: int, message_id: int, envelope: bytes, payload_bytes: int = 0) -> bytes:
    """Everything of a frame but its payload, which follows on the wire and is never copied."""
    envelope_bytes = len(envelope)
    body_bytes = _ENVELOPE_LENGTH_BYTES + envelope_bytes + payload_bytes
    return _PREFIX.pack(MAGIC, VERSION, kind, message_id, body_bytes, envelope_bytes) + envelope


def _check_magic(beginning: bytes) -> None:
    if not _MAGIC_BYTES.startswith(beginning):
        raise MalformedFrame(
            f"The bytes {beginning.hex()} do not begin a Penstock frame: is this the right port?"
        )
