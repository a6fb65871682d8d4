"""The messages that simulated producers send: each says who sent it, and which of its own it is.

So a reader of any copy knows where a message belongs. The invariant: no two messages of a run have
the same value, and none is a part of another.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.records import build_batch

_VALUE: Final = re.compile(rb"<(\d+)/(\d+)>")
# So few that compaction has something to take.
_KEYS: Final = 4


def message(producer: int, number: int) -> tuple[bytes, bytes]:
    """Key and value."""
    return b"key %d" % (number % _KEYS), b"<%d/%d>" % (producer, number)


def is_message(value: bytes | None) -> bool:
    """Or else it is a record of a leader's own."""
    return value is not None and _VALUE.fullmatch(value) is not None


def origin(value: bytes) -> tuple[int, int]:
    """Who sent it, and which of its own it is."""
    match = _VALUE.fullmatch(value)
    assert match is not None, value
    return int(match[1]), int(match[2])


class Identity(NamedTuple):
    """Under which an idempotent producer is known."""

    producer_id: int
    first: int
    """The number of its first message under this id."""


def batch_of(
    producer: int, first: int, count: int, timestamp_ms: int, identity: Identity | None
) -> bytearray:
    """So many messages of a producer, from that one on. identity: if it is idempotent."""
    producer_id, epoch, sequence = -1, -1, -1
    if identity is not None:
        producer_id, epoch, sequence = identity.producer_id, 0, first - identity.first
    return build_batch(
        [message(producer, number) for number in range(first, first + count)],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
