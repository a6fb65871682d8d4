"""The headers of a message that the queue itself understands: its tag, its end, its priority.

Made here and nowhere else in the client; what they mean is in `model.message_headers`. Headers like
any other, so a Kafka client may set them too. The invariant: what is given here counts, whatever
the caller's own headers say.
"""

from __future__ import annotations

import math
from time import time_ns

from penstock.client.producing.accumulator import Headers
from penstock.model.errors import InvalidRequest
from penstock.model.limits import FILTER_TAG_BYTES_MAX, TTL_MS_MAX
from penstock.model.message_headers import EXPIRES_MS, PRIORITY, PRIORITY_MAX, TAG


def with_queue_headers(
    headers: Headers | None,
    tag: str | None,
    ttl_s: float | None,
    priority: int | None,
    from_ms: int | None = None,
) -> Headers:
    """The headers with those of the queue. from_ms: when the time to live begins; None: now."""
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
