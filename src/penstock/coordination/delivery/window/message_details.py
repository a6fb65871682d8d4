"""What sets a message apart when it is handed out: its key's order, its priority, its end.

Not filters. The invariant: a plain message has no details, so that it costs nothing; and what
cannot be read in a header does not count, whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from penstock.model.message_headers import (
    EXPIRES_MS,
    PRIORITY,
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    read_number,
)


class MessageDetails(NamedTuple):
    """Of one message. `key` stands for the message's key: equal keys have equal ones; None where
    it has no key, or the group is not ordered by key."""

    offset: int
    key: int | None = None
    priority: int = PRIORITY_DEFAULT
    expires_ms: int | None = None


def details_of(
    offset: int,
    key: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
    *,
    is_ordered_by_key: bool,
) -> MessageDetails | None:
    """The details of a message, None if it is a plain one."""
    priority = PRIORITY_DEFAULT
    expires_ms: int | None = None
    for name, value in headers:
        if name == EXPIRES_MS:
            expires_ms = read_number(value)
        elif name == PRIORITY:
            number = read_number(value)
            if number is not None and number <= PRIORITY_MAX:
                priority = number
    # Keys of one hash are put in one line, which does no harm. Nobody outside can find such keys:
    # Python's hash of bytes is seeded anew for each process.
    line = hash(key) if is_ordered_by_key and key is not None else None
    if line is None and priority == PRIORITY_DEFAULT and expires_ms is None:
        return None
    return MessageDetails(offset, line, priority, expires_ms)
