"""Kafka's frames: a length, a header, a message. From bytes to a request, from a response to bytes.

Not the messages themselves. The invariant: a frame whose length, API, version or bytes are not what
the protocol allows raises a ProtocolError, and nothing of it is used.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from penstock.model.errors import FrameTooLarge, MalformedFrame
from penstock.protocol.kafka.apis import API_VERSIONS, PRODUCE, Api
from penstock.protocol.kafka.codec import (
    Outgoing,
    Payload,
    read_tag_section,
    write_message,
)

LENGTH_BYTES: Final = 4
_HEAD: Final = Struct(">ihhih")  # length, API, version, correlation id, length of the client's name
_LENGTH_AND_API: Final = Struct(">ih")
_ANSWER: Final = Struct(">ii")  # length, correlation id
HEAD_BYTES: Final = _HEAD.size

Head = tuple[int, int, int, str, int]
"""API, version, correlation id, name of the client, where the header without its tagged fields
ends. A tuple, since there is one for every request."""


def measure(view: memoryview, start: int, end: int, produce_max: int, other_max: int) -> int:
    """The length of the frame at `start`, its own length included; 0 if more bytes are needed.

    Only a produce request may be longer than `other_max`: it is mostly batches, which stay bytes.
    """
    if end - start < _LENGTH_AND_API.size:
        return 0
    length, key = _LENGTH_AND_API.unpack_from(view, start)
    if length < HEAD_BYTES - LENGTH_BYTES:
        raise MalformedFrame(f"A Kafka frame of {length} bytes has no room for its header.")
    allowed_bytes = produce_max if key == PRODUCE.key else other_max
    if length + LENGTH_BYTES > allowed_bytes:
        raise FrameTooLarge(
            f"A Kafka frame of {length} bytes is longer than the {allowed_bytes} allowed."
        )
    return int(length) + LENGTH_BYTES


def read_head(frame: memoryview) -> Head:
    """What the frame is. Every version of the header begins like this."""
    _, key, version, correlation_id, name_length = _HEAD.unpack_from(frame)
    position = HEAD_BYTES
    name = ""
    if name_length > 0:
        end = position + name_length
        if end > len(frame):
            raise MalformedFrame("The client's name is longer than its frame.")
        name = str(frame[position:end], "utf-8", "replace")
        position = end
    elif name_length < -1:
        raise MalformedFrame(f"The client's name has a length of {name_length}.")
    return key, version, correlation_id, name, position


def body_position(api: Api, version: int, frame: memoryview, position: int) -> int:
    """Where the message begins: after the tagged fields that newer headers have."""
    return read_tag_section(frame, position) if api.is_flexible(version) else position


def encode_answer(
    api: Api, version: int, correlation_id: int, response: object
) -> list[bytearray | Payload]:
    """The frame that answers: bytes, and the payloads that go between them."""
    out = Outgoing()
    out.buffer += bytes(_ANSWER.size)
    is_flexible = api.is_flexible(version)
    # ApiVersions is answered to clients that do not know yet what we speak (KIP-511).
    if is_flexible and api is not API_VERSIONS:
        out.buffer.append(0)
    write_message(response, version, is_flexible, out)
    parts = out.parts
    length = len(out.buffer)
    if parts:
        length += sum(len(part) if isinstance(part, bytearray) else part.length for part in parts)
    parts.append(out.buffer)
    head = parts[0]
    assert isinstance(head, bytearray)
    _ANSWER.pack_into(head, 0, length - LENGTH_BYTES, correlation_id)
    return parts
