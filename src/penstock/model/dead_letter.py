"""Dead letters (R-DEL-9): what is written of a message that failed for good, and how it goes back.

A dead letter is the message with its value and its headers, in the group's dead-letter topic, under
a key that says where it was, so that one written twice is there once. Not when a message is dead,
nor reading and writing. The invariant: what is read back of a letter that was built here is what
was given; and of any other record, whatever is in it, either a letter that makes sense or None.
In `model`, since brokers write letters and clients read them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.model.errors import InvalidTopic
from penstock.model.ids import check_public, check_topic_name
from penstock.model.limits import TOPIC_NAME_LENGTH_MAX
from penstock.model.message_headers import (
    DEAD_AT_MS,
    DEAD_ATTEMPTS,
    DEAD_GROUP,
    DEAD_KEY,
    DEAD_NO_VALUE,
    DEAD_OFFSET,
    DEAD_PARTITION,
    DEAD_REASON,
    DEAD_TIMESTAMP_MS,
    DEAD_TOPIC,
    EXPIRES_MS,
    REDRIVES,
    read_number,
)

Headers = tuple[tuple[str, bytes | None], ...]

TOPIC_PREFIX: Final = "dead-letters."
# A message that was redriven so often and died each time is not, again, unless somebody insists.
REDRIVES_MAX: Final = 2

_DEAD_HEADERS: Final = frozenset(
    {
        DEAD_TOPIC,
        DEAD_PARTITION,
        DEAD_OFFSET,
        DEAD_KEY,
        DEAD_TIMESTAMP_MS,
        DEAD_GROUP,
        DEAD_REASON,
        DEAD_ATTEMPTS,
        DEAD_AT_MS,
        DEAD_NO_VALUE,
    }
)
# A reason is for people to read: whatever is longer is in the consumer's own log.
_REASON_BYTES_MAX: Final = 1024
_PARTITION_MAX: Final = 2**31 - 1
# Whatever a header says, what is counted from there can be read back.
_REDRIVES_COUNTED_MAX: Final = 1_000_000

# Two dots and the hexadecimal of a byte that a topic's name may not have. Of two dots in a group's
# name the second is written like this as well, so that two dots always begin one.
_ESCAPE: Final = re.compile(rb"\.\.([0-9a-f]{2})")
_PLAIN: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
# In place of the rest of a name that is too long: no escape begins with h.
_DIGEST_MARK: Final = "..h"
_DIGEST_LENGTH: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage:
    """A message as it is in its topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message that is dead: where it was, what it was, and what is known of its end."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    group: str
    reason: str
    attempts: int
    dead_at_ms: int | None
    redrives: int
    """How often it was put back before it died this time."""
    headers: Headers
    """The message's own, with the number of redrives among them."""

    @property
    def id(self) -> str:
        """What it is called by, and kept under."""
        return dead_letter_id(self.topic, self.partition, self.offset)

    def may_be_redriven(self, *, force: bool) -> bool:
        """The guard against loops: what died after two redrives stays, unless somebody insists."""
        return force or self.redrives < REDRIVES_MAX


# --- the topic ---------------------------------------------------------------------------------


def dead_letter_topic(group: str) -> str:
    """Where the dead letters of a group are. Different groups have different topics, and
    `group_of_topic` reads the name back, unless it is so long that it had to be shortened."""
    escaped = ""
    for byte in group.encode(errors="surrogatepass"):
        character = chr(byte)
        is_second_dot = character == "." and escaped.endswith(".")
        escaped += character if byte in _PLAIN and not is_second_dot else f"..{byte:02x}"
    room = TOPIC_NAME_LENGTH_MAX - len(TOPIC_PREFIX)
    if len(escaped) > room:
        digest = hashlib.sha256(group.encode(errors="surrogatepass")).hexdigest()
        tail = _DIGEST_MARK + digest[:_DIGEST_LENGTH]
        escaped = escaped[: room - len(tail)].rstrip(".") + tail
    return TOPIC_PREFIX + escaped


def group_of_topic(topic: str) -> str | None:
    """The group whose dead letters are there; None if it is no such topic, or does not tell."""
    if not topic.startswith(TOPIC_PREFIX):
        return None
    escaped = topic.removeprefix(TOPIC_PREFIX).encode(errors="replace")
    unescaped = _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), escaped)
    try:
        group = unescaped.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return None
    # Anything that is not written as we write it is somebody else's topic.
    return group if group and dead_letter_topic(group) == topic else None


# --- a letter ----------------------------------------------------------------------------------


def dead_letter_id(topic: str, partition: int, offset: int) -> str:
    return f"{topic}/{partition}/{offset}"


class LetterRecord(NamedTuple):
    """A dead letter as it is kept. Without a value the key alone says that it is gone."""

    key: bytes
    value: bytes
    headers: Headers


def write_dead_letter(
    message: SourceMessage, group: str, reason: str, attempts: int, now_ms: int
) -> LetterRecord:
    """The message's dead letter: its own headers, and what is known of its end."""
    text = reason.encode(errors="replace")[:_REASON_BYTES_MAX].decode(errors="ignore")
    known: list[tuple[str, bytes | None]] = [
        (DEAD_TOPIC, message.topic.encode()),
        (DEAD_PARTITION, _number(message.partition)),
        (DEAD_OFFSET, _number(message.offset)),
        (DEAD_TIMESTAMP_MS, _number(message.timestamp_ms)),
        (DEAD_GROUP, group.encode(errors="replace")),
        (DEAD_REASON, text.encode()),
        (DEAD_ATTEMPTS, _number(attempts)),
        (DEAD_AT_MS, _number(now_ms)),
    ]
    if message.key is not None:
        # As it is: a key is any bytes, and goes back as it was.
        known.append((DEAD_KEY, message.key))
    if message.value is None:
        known.append((DEAD_NO_VALUE, b""))
    return LetterRecord(
        dead_letter_id(message.topic, message.partition, message.offset).encode(),
        b"" if message.value is None else message.value,
        (*_own(message.headers, message.topic), *known),
    )


def read_dead_letter(key: bytes | None, value: bytes | None, headers: Headers) -> DeadLetter | None:
    """The letter in this record; None if it is no dead letter, or one that says nothing of where
    its message belongs, or is kept under another key than its own."""
    # Ours are behind those that the message had, which may have been a letter itself.
    at = max((at for at, (name, _) in enumerate(headers) if name == DEAD_TOPIC), default=0)
    found = dict(headers[at:])
    topic = _text(found.get(DEAD_TOPIC))
    partition = read_number(found.get(DEAD_PARTITION))
    offset = read_number(found.get(DEAD_OFFSET))
    if partition is None or partition > _PARTITION_MAX or offset is None:
        return None
    try:
        check_public(check_topic_name(topic))
    except InvalidTopic:
        return None
    if value is None or key != dead_letter_id(topic, partition, offset).encode():
        return None
    return DeadLetter(
        topic=topic,
        partition=partition,
        offset=offset,
        timestamp_ms=read_number(found.get(DEAD_TIMESTAMP_MS)),
        key=found.get(DEAD_KEY),
        value=None if DEAD_NO_VALUE in found else value,
        group=_text(found.get(DEAD_GROUP)),
        reason=_text(found.get(DEAD_REASON)),
        attempts=read_number(found.get(DEAD_ATTEMPTS)) or 0,
        dead_at_ms=read_number(found.get(DEAD_AT_MS)),
        redrives=read_number(dict(headers).get(REDRIVES)) or 0,
        headers=(*_own(headers[:at], topic), *_own(headers[at:])),
    )


def redrive_headers(letter: DeadLetter, now_ms: int) -> Headers:
    """The headers the message goes back with: its own, counted once more. An expiry that has passed
    is left out, or it would be put back for nobody."""
    expires_ms = read_number(dict(letter.headers).get(EXPIRES_MS))
    left_out = {REDRIVES}
    if expires_ms is not None and expires_ms <= now_ms:
        left_out.add(EXPIRES_MS)
    kept = [(name, value) for name, value in letter.headers if name not in left_out]
    return (*kept, (REDRIVES, _number(min(letter.redrives + 1, _REDRIVES_COUNTED_MAX))))


def _own(headers: Headers, topic: str = "") -> Headers:
    """Without what an earlier death of the message left; of one that was in a topic of dead letters
    that is its own, without which it would be no letter any more when it goes back."""
    if topic.startswith(TOPIC_PREFIX):
        return headers
    return tuple((name, value) for name, value in headers if name not in _DEAD_HEADERS)


def _number(number: int) -> bytes:
    return str(number).encode()


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
