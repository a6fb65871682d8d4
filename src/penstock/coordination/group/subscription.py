"""What a consumer subscribes to, read from the metadata it joins its group with.

Not the whole of Kafka's ConsumerProtocolSubscription: the topics are a prefix that every version
has, and the rest (user data, owned partitions, rack) is between the members. The metadata comes
from outside: bytes that do not follow the format are "unknown", never an exception.
"""

from __future__ import annotations

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
SHARE_PROTOCOL_TYPE: Final = "share"

_HEAD: Final = struct.Struct(">hi")  # version, number of topics
_LENGTH: Final = struct.Struct(">h")


def topics_of(metadata: bytes) -> frozenset[str] | None:
    """The topics of one member, or None where the bytes are not a subscription."""
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    position = _HEAD.size
    # A topic takes two bytes at least: a count beyond that is a lie, found before the loop.
    if version < 0 or not 0 <= count <= (len(metadata) - position) // _LENGTH.size:
        return None
    topics = set()
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        if length < 0 or position + length > len(metadata):
            return None
        try:
            topics.add(metadata[position : position + length].decode())
        except UnicodeDecodeError:
            return None
        position += length
    return frozenset(topics)
