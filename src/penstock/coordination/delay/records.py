"""What is written to `__delayed`: messages that wait, and what became of them.

Not who writes it, and not where a message is looked up when it is due. The first record of a batch
says what the batch is: its key is one letter, its value what belongs to it. A batch of messages
begins with a `Head`; the messages follow it as they are, so that the first has the offset behind
the head's. The invariant: what `decode` gives is what `encode` was given, and bytes that are
neither are CorruptLog.

A message is known by (when it is due, its number). The number is the offset at which it was
accepted, and stays when it is moved: so messages go in the order of these pairs, for ever.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from penstock.model.errors import CorruptLog

ResultT = TypeVar("ResultT")

DELAYED_TOPIC: Final = "__delayed"

HEAD: Final = b"m"
"""Messages follow."""
LANE: Final = b"l"
"""A partition that messages wait for, and the producer id they come to it under."""
LANES_GONE: Final = b"x"
CANCELLED: Final = b"c"
DECIDED: Final = b"d"
"""What is due goes from now on; and what has arrived."""
ERA: Final = b"e"
"""The clock was put back: the frontier too, and what it had passed stays passed."""
SCHEDULE: Final = b"s"
SCHEDULE_GONE: Final = b"r"
CHECKPOINT: Final = b"p"
"""Everything but the messages themselves: what came before it need not be read."""

TOKEN_BYTES: Final = 16
_VERSION: Final = 1
_ORDERED, _MOVED, _TOKEN, _FIRED = 1, 2, 4, 8
_FIXED: Final = struct.Struct(">BBII")
_REQUEST: Final = struct.Struct(f">{TOKEN_BYTES}sII")
_FIRED_FIXED: Final = struct.Struct(">qH")
_SIZE_MAX: Final = 2**32 - 1


class Due(NamedTuple):
    """Which message, and when."""

    due_ms: int
    number: int


NOTHING_DUE: Final = Due(0, 0)


class Fired(NamedTuple):
    """The message is one of a schedule, which comes again then."""

    schedule: str
    next_due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Of a batch of messages."""

    lane: int
    due_ms: tuple[int, ...]
    sizes: tuple[int, ...]
    is_ordered: bool = False
    numbers: tuple[int, ...] | None = None
    """Of messages that were moved; None: each has its offset."""
    token: bytes = b""
    """Of the request that brought it, if it has one."""
    request_index: int = 0
    """Which of that request's messages the first one here is."""
    request_messages: int = 0
    """How many messages that request brought: all of them are kept, or it is to come again."""
    fired: Fired | None = None

    def dues(self, base_offset: int) -> list[Due]:
        """Of the messages of a batch at the offset."""
        numbers = self.numbers
        if numbers is None:
            numbers = tuple(range(base_offset + 1, base_offset + 1 + len(self.due_ms)))
        return list(map(Due, self.due_ms, numbers))


def encode_head(head: Head) -> bytes:
    count = len(head.due_ms)
    assert count == len(head.sizes) > 0, head
    flags = _ORDERED if head.is_ordered else 0
    parts = [struct.pack(f">{count}q", *head.due_ms), struct.pack(f">{count}I", *head.sizes)]
    if head.numbers is not None:
        assert len(head.numbers) == count, head
        flags |= _MOVED
        parts.append(struct.pack(f">{count}q", *head.numbers))
    if head.token:
        flags |= _TOKEN
        parts.append(_REQUEST.pack(head.token, head.request_index, head.request_messages))
    if head.fired is not None:
        flags |= _FIRED
        name = head.fired.schedule.encode()
        parts.append(_FIRED_FIXED.pack(head.fired.next_due_ms, len(name)) + name)
    return b"".join([_FIXED.pack(_VERSION, flags, head.lane, count), *parts])


def decode_head(data: bytes) -> Head:
    try:
        return _decode_head(data)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptLog(f"A head of {DELAYED_TOPIC} cannot be read: {error!r}.") from error


def _decode_head(data: bytes) -> Head:
    version, flags, lane, count = _FIXED.unpack_from(data)
    position = _FIXED.size
    if version != _VERSION or count == 0 or len(data) < position + count * 12:
        raise CorruptLog(f"A head of {DELAYED_TOPIC} has version {version}, {count} messages.")
    due_ms = struct.unpack_from(f">{count}q", data, position)
    sizes = struct.unpack_from(f">{count}I", data, position + count * 8)
    position += count * 12
    numbers = None
    if flags & _MOVED:
        numbers = struct.unpack_from(f">{count}q", data, position)
        position += count * 8
    token, request_index, request_messages = b"", 0, 0
    if flags & _TOKEN:
        token, request_index, request_messages = _REQUEST.unpack_from(data, position)
        position += _REQUEST.size
    fired = None
    if flags & _FIRED:
        next_due_ms, length = _FIRED_FIXED.unpack_from(data, position)
        position += _FIRED_FIXED.size
        fired = Fired(data[position : position + length].decode(), next_due_ms)
        position += length
    if position != len(data) or min(due_ms) < 0 or min(sizes) == 0:
        raise CorruptLog(f"A head of {DELAYED_TOPIC} contradicts itself.")
    return Head(
        lane=lane,
        due_ms=due_ms,
        sizes=sizes,
        is_ordered=bool(flags & _ORDERED),
        numbers=numbers,
        token=token,
        request_index=request_index,
        request_messages=request_messages,
        fired=fired,
    )


def size_of(key: bytes | None, value: bytes | None, headers: object) -> int:
    """About how many bytes a message takes where it waits."""
    length = 32 + len(key or b"") + len(value or b"")
    if headers:
        assert isinstance(headers, tuple | list)
        length += sum(len(name) + len(content or b"") + 4 for name, content in headers)
    return min(length, _SIZE_MAX)


def lane_prefix(lane: int) -> bytes:
    """By which the keys of a lane are known."""
    return lane.to_bytes(4, "big")


def key_hash(lane: int, key: bytes) -> bytes:
    """By which a key is remembered whose order is to be kept: no two have the same."""
    return lane_prefix(lane) + hashlib.blake2b(key, digest_size=16).digest()


# --- the others, as JSON -------------------------------------------------------------------------


class Cancelled(NamedTuple):
    """A message that will not come."""

    due: Due
    lane: int
    size: int


class Share(NamedTuple):
    """How much of a lane is due."""

    lane: int
    messages: int
    size_bytes: int


class Arrived(NamedTuple):
    """How much of a lane has come to its partition: all up to `done`, and the next message is the
    producer's so manieth."""

    lane: int
    messages: int
    size_bytes: int
    producer_id: int
    sequence: int
    done: Due


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Everything up to `frontier` is due, and nothing that is accepted later comes before it.
    What is due is `shares`; what has arrived of what was due before, `arrived`."""

    frontier: Due
    shares: tuple[Share, ...] = ()
    arrived: tuple[Arrived, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRecord:
    """A partition that messages wait for."""

    lane: int
    topic: str
    topic_id: str
    partition: int
    producer_id: int


def encode_cancelled(cancelled: Sequence[Cancelled]) -> bytes:
    return _json([[*each.due, each.lane, each.size] for each in cancelled])


def decode_cancelled(data: bytes) -> list[Cancelled]:
    return _read(data, lambda rows: [Cancelled(Due(row[0], row[1]), *row[2:]) for row in rows])


def encode_decided(decided: Decided) -> bytes:
    return _json(
        {
            "frontier": decided.frontier,
            "shares": decided.shares,
            "arrived": [[*each[:-1], *each.done] for each in decided.arrived],
        }
    )


def decode_decided(data: bytes) -> Decided:
    return _read(data, _decided)


def _decided(fields: Any) -> Decided:
    return Decided(
        frontier=Due(*fields["frontier"]),
        shares=tuple([Share(*row) for row in fields["shares"]]),
        arrived=tuple([_arrived(*row) for row in fields["arrived"]]),
    )


def _arrived(
    lane: int,
    messages: int,
    size_bytes: int,
    producer_id: int,
    sequence: int,
    due_ms: int,
    number: int,
) -> Arrived:
    return Arrived(lane, messages, size_bytes, producer_id, sequence, Due(due_ms, number))


def encode_lane(lane: LaneRecord) -> bytes:
    return _json([lane.lane, lane.topic, lane.topic_id, lane.partition, lane.producer_id])


def decode_lane(data: bytes) -> LaneRecord:
    names = ("lane", "topic", "topic_id", "partition", "producer_id")
    return _read(data, lambda row: LaneRecord(**dict(zip(names, row, strict=True))))


def encode_due(due: Due) -> bytes:
    return _json(due)


def decode_due(data: bytes) -> Due:
    return _read(data, lambda row: Due(*map(int, row)))


def encode_names(names: Sequence[int] | Sequence[str]) -> bytes:
    return _json(names)


def decode_names(data: bytes) -> list[Any]:
    return _read(data, list)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _read(data: bytes, make: Callable[[Any], ResultT]) -> ResultT:
    try:
        return make(json.loads(data))
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise CorruptLog(f"A record of {DELAYED_TOPIC} cannot be read: {error!r}.") from error
