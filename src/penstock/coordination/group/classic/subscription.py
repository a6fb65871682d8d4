"""What a consumer subscribes to, read from the metadata it joins its group with; and what its
group's leader assigned to it.

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
_COUNT: Final = struct.Struct(">i")


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


def partitions_of(assignment: bytes) -> dict[str, tuple[int, ...]]:
    """What a member of a classic group was assigned by its leader, by topic; as much of it as
    follows the format of Kafka's ConsumerProtocolAssignment."""
    found: dict[str, tuple[int, ...]] = {}
    if len(assignment) < _HEAD.size:
        return found
    _, count = _HEAD.unpack_from(assignment)
    position = _HEAD.size
    try:
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(assignment, position)
            position += _LENGTH.size
            topic = assignment[position : position + length].decode()
            position += length
            (number,) = _COUNT.unpack_from(assignment, position)
            position += _COUNT.size
            if length < 0 or number < 0:
                return found  # or a step back would be taken as often as `count` says
            # What the bytes cannot hold is a lie, and unpacking it fails before it costs anything.
            found[topic] = struct.unpack_from(f">{number}I", assignment, position)
            position += number * _COUNT.size
    except (struct.error, UnicodeDecodeError):
        return found
    return found
