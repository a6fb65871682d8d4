"""What may be said of a message beside its topic, its value and its key: defined here, once.

Some of it, its tag, its end and its priority, becomes headers that the queue itself understands;
what they mean is in `model.message_headers`. Headers like any other, so a Kafka client may set them
too. Not when it is delivered (`admin.delayed`). The invariant: what is given here counts, whatever
the caller's own headers say.
"""

from __future__ import annotations

import math
from time import time_ns
from typing import TypedDict

from penstock.client.producing.accumulator import Headers
from penstock.model.errors import InvalidRequest
from penstock.model.limits import FILTER_TAG_BYTES_MAX, TTL_MS_MAX
from penstock.model.message_headers import EXPIRES_MS, PRIORITY, PRIORITY_MAX, TAG


class QueueOptions(TypedDict, total=False):
    """What becomes headers of the queue, as keywords of all that publishes."""

    tag: str | None
    """Of what sort the message is, for filters."""

    ttl_s: float | None
    """So long after it is published, or due, it is not delivered any more."""

    priority: int | None
    """0 to 9, higher ones first in shared groups; 4 unless given."""


class MessageOptions(QueueOptions, total=False):
    """All that may be said of a message, whenever it is delivered."""

    headers: Headers | None
    """Pairs of a name and bytes; a name may come more than once."""

    partition: int | None
    """Where it goes; None: where its key does, or without one where a batch is open."""


def with_queue_headers(
    headers: Headers | None,
    tag: str | None = None,
    ttl_s: float | None = None,
    priority: int | None = None,
    from_ms: int | None = None,
) -> Headers | None:
    """The headers with those that the queue's options become. from_ms: when the time to live
    begins; None: now."""
    if tag is None and ttl_s is None and priority is None:
        return headers
    given = tuple(headers or ())
    if tag is not None:
        given = ((TAG, _tag(tag)), *given)  # the first one counts
    if ttl_s is not None:
        begin_ms = time_ns() // 1_000_000 if from_ms is None else from_ms
        given = (*given, (EXPIRES_MS, b"%d" % (begin_ms + _ttl_ms(ttl_s))))  # the last one does
    if priority is not None:
        given = (*given, (PRIORITY, _priority(priority)))
    return given


def _tag(tag: str) -> bytes:
    try:
        encoded = tag.encode()
    except (AttributeError, UnicodeError):
        raise InvalidRequest(f"The tag is {tag!r}: give text, as in tag='paid'.") from None
    if not 1 <= len(encoded) <= FILTER_TAG_BYTES_MAX:
        raise InvalidRequest(
            f"The tag has {len(encoded)} bytes: give it 1 to {FILTER_TAG_BYTES_MAX}."
        )
    return encoded


def _ttl_ms(ttl_s: float) -> int:
    if not isinstance(ttl_s, int | float) or not 0 < ttl_s <= TTL_MS_MAX / 1000:
        raise InvalidRequest(
            f"ttl_s is {ttl_s!r}: give seconds, more than 0 and at most {TTL_MS_MAX // 1000}."
        )
    return math.ceil(ttl_s * 1000)


def _priority(priority: int) -> bytes:
    if not isinstance(priority, int) or not 0 <= priority <= PRIORITY_MAX:
        raise InvalidRequest(f"The priority is {priority!r}: give a number from 0 to 9.")
    return b"%d" % priority
