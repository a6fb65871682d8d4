"""The tag of a message, which filters look at (R-DEL-12): a header like any other."""

from __future__ import annotations

from penstock.client.accumulator import Headers
from penstock.model.errors import InvalidRequest
from penstock.model.limits import FILTER_TAG_BYTES_MAX
from penstock.model.message_headers import TAG


def tagged(headers: Headers | None, tag: str) -> Headers:
    """The headers with the tag in front of them: the first one counts."""
    try:
        encoded = tag.encode()
    except (AttributeError, UnicodeError):
        raise InvalidRequest(f"The tag is {tag!r}: give text, as in tag='paid'.") from None
    if not 1 <= len(encoded) <= FILTER_TAG_BYTES_MAX:
        raise InvalidRequest(
            f"The tag has {len(encoded)} bytes: give it 1 to {FILTER_TAG_BYTES_MAX}."
        )
    return ((TAG, encoded), *(headers or ()))
