"""Messages as every client knows them, and the ones that the tests send.

Not tied to any client: drivers turn these into what their client takes and gives.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

Header = tuple[str, bytes | None]

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is sent."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    """None: the client's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is read: the message and where it was."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int


def numbered(numbers: range) -> list[Message]:
    """Messages whose values tell them apart."""
    return [Message(key=None, value=b"%d" % number) for number in numbers]


def of_every_shape() -> list[Message]:
    """Nulls, empties, bytes that are no text, headers of all kinds, and one of 900 kB."""
    noise = random.Random(1)
    return [
        Message(key=b"key", value=b"value", timestamp_ms=1_700_000_000_001),
        Message(key=None, value=b"no key"),
        Message(key=b"deleted", value=None),
        Message(key=None, value=None),
        Message(key=b"", value=b""),
        Message(key=b"\x00\xff\xfe\n", value=bytes(range(256))),
        Message(key="schlüssel".encode(), value=b"a" * 10_000),
        Message(key=b"one", value=b"header", headers=(("trace", b"\xff\x00\x01"),)),
        Message(key=b"order", value=b"kept", headers=(("b", b"1"), ("a", b"2"), ("ö", b"3"))),
        Message(key=b"twice", value=b"named", headers=(("a", b"1"), ("b", b""), ("a", b"2"))),
        Message(key=b"null", value=b"header", headers=(("a", None), ("b", b"x"))),
        Message(key=b"large", value=noise.randbytes(900_000), timestamp_ms=1_700_000_000_002),
    ]


def assert_same(found: list[Record], expected: list[Record], where: str) -> None:
    """Equal, and if not, say where without a megabyte of values."""
    offsets = ([record.offset for record in found], [record.offset for record in expected])
    assert offsets[0] == offsets[1], f"{where}: offsets {offsets[0]} instead of {offsets[1]}"
    for one, other in zip(found, expected, strict=True):
        different = [
            name for name in Record.__slots__ if getattr(one, name) != getattr(other, name)
        ]
        shown = [
            (str(getattr(one, name))[:99], str(getattr(other, name))[:99]) for name in different
        ]
        assert not different, f"{where}: offset {one.offset} differs in {different}: {shown}"


def assert_sent(found: list[Record], sent: list[Message], where: str) -> None:
    """The records hold the messages, in their order, from offset 0 of partition 0 on."""
    expected = [
        Record(
            partition=0,
            offset=offset,
            key=message.key,
            value=message.value,
            headers=message.headers,
            timestamp_ms=record.timestamp_ms
            if message.timestamp_ms is None
            else message.timestamp_ms,
        )
        for offset, (message, record) in enumerate(zip(sent, found, strict=True))
    ]
    assert_same(found, expected, where)
