"""Which segments have outlived their topic's limits: a pure choice.

Deleting is `Log.delete_before`. The invariant: only whole, sealed segments are chosen, from the
oldest on without a gap, so the active segment always stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.storage.segment import SegmentInfo

NO_LIMIT: Final = -1


def choose(
    segments: Sequence[SegmentInfo], *, now_ms: int, retention_ms: int, retention_bytes: int
) -> int:
    """The offset before which everything may go: the log's start if nothing may.

    A segment is too old when its newest message is; one without any timestamp never is, since
    nothing says how old it is.
    """
    total_bytes = sum(segment.size_bytes for segment in segments)
    offset = segments[0].first_offset
    for segment in segments:
        too_old = retention_ms != NO_LIMIT and 0 <= segment.max_timestamp_ms < now_ms - retention_ms
        too_much = retention_bytes != NO_LIMIT and total_bytes > retention_bytes
        if not segment.sealed or not (too_old or too_much):
            break
        offset = segment.last_offset + 1
        total_bytes -= segment.size_bytes
    return offset
