"""Where reading begins, in the ways that people say it: "earliest", an offset, a moment.

Plain data and its check; `fetcher` asks the broker what it means.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from penstock.model.errors import InvalidConfig
from penstock.protocol import penstock_pb2 as pb

# An int is an offset; a datetime stands for the first message of that moment or later.
Start = Literal["earliest", "latest"] | int | datetime
OutOfRange = Literal["earliest", "latest", "error"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_start(start: Start) -> Start:
    """The start, or InvalidConfig that says what it can be."""
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise InvalidConfig(
                "The start is a datetime without a time zone: add one, as in "
                "datetime.now(timezone.utc)."
            )
        return start
    if isinstance(start, int) and not isinstance(start, bool) and start >= 0:
        return start
    if start in ("earliest", "latest"):
        return start
    raise InvalidConfig(
        f'The start is {start!r}: it can be "earliest", "latest", an offset or a datetime.'
    )


def check_out_of_range(policy: OutOfRange) -> OutOfRange:
    if policy not in ("earliest", "latest", "error"):
        raise InvalidConfig(
            f'on_out_of_range is {policy!r}: it can be "earliest", "latest" or "error".'
        )
    return policy


def find_request(topic: str, partition: int, start: Start) -> pb.FindOffsetRequest | None:
    """The question to the broker, or None if the start is an offset already."""
    if isinstance(start, datetime):
        # Not by way of a float, which lacks a millisecond now and then.
        timestamp_ms = (start - _EPOCH) // timedelta(milliseconds=1)
        return pb.FindOffsetRequest(topic=topic, partition=partition, timestamp_ms=timestamp_ms)
    if start == "earliest":
        return pb.FindOffsetRequest(topic=topic, partition=partition, earliest=True)
    if start == "latest":
        return pb.FindOffsetRequest(topic=topic, partition=partition, latest=True)
    return None
