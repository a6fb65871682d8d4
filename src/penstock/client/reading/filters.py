"""What a consumer is for, as the broker is asked for it (R-DEL-12).

The expression is understood by the broker alone, which refuses a wrong one with the place. Here
only what a person easily gets wrong in Python is caught.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.model.errors import InvalidConfig
from penstock.protocol import penstock_pb2 as pb


def make_filter(
    expression: str | None,
    tags: str | Sequence[str],
    key: bytes | None,
    key_prefix: bytes | None,
) -> pb.Filter | None:
    """The filter as it is sent; None if everything is wanted. A tag may stand alone."""
    if not (expression or tags or key is not None or key_prefix is not None):
        return None
    for name, content in (("key", key), ("key_prefix", key_prefix)):
        if content is not None and not isinstance(content, bytes):
            raise InvalidConfig(f"The {name} is {content!r}: give bytes, as in b'alice'.")
    names = [tags] if isinstance(tags, str) else list(tags)
    if not all(isinstance(name, str) for name in names):
        raise InvalidConfig(f"The tags are {names!r}: give text, as in tags=['paid'].")
    if expression is not None and not isinstance(expression, str):
        raise InvalidConfig(f"The filter is {expression!r}: give text, as in 'price > 10'.")
    try:
        return pb.Filter(expression=expression, tags=names, key=key, key_prefix=key_prefix)
    except (UnicodeError, ValueError):
        raise InvalidConfig("The filter is no text of Unicode: write it otherwise.") from None
