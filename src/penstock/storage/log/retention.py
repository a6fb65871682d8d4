"""Which segments have outlived their topic's limits: a pure choice.

Deleting is `Cutter.delete_before`. The invariant: only whole, sealed segments are chosen, from the
oldest on without a gap, so the active segment always stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from penstock.model.removal import Removal, RemovalCause
from penstock.storage.segments.segment import SegmentInfo

NO_LIMIT: Final = -1


class Outlived(NamedTuple):
    """A segment that may go, by where it ends, and the limit that it has outlived."""

    end_offset: int
    cause: RemovalCause


def choose(
    segments: Sequence[SegmentInfo], *, now_ms: int, retention_ms: int, retention_bytes: int
) -> list[Outlived]:
    """The segments that may go, oldest first.

    A segment is too old when its newest message is; one without any timestamp never is, since
    nothing says how old it is.
    """
    total_bytes = sum(segment.size_bytes for segment in segments)
    outlived: list[Outlived] = []
    for segment in segments:
        too_old = retention_ms != NO_LIMIT and 0 <= segment.max_timestamp_ms < now_ms - retention_ms
        too_much = retention_bytes != NO_LIMIT and total_bytes > retention_bytes
        if not segment.sealed or not (too_old or too_much):
            break
        cause: RemovalCause = "retention_time" if too_old else "retention_size"
        outlived.append(Outlived(segment.last_offset + 1, cause))
        total_bytes -= segment.size_bytes
    return outlived


def removals(
    outlived: Sequence[Outlived],
    first_offset: int,
    end_offset: int,
    *,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> Iterator[Removal]:
    """What went of the chosen segments when a log's start moved from one offset to the other: one
    removal for all that follow one another for the same cause."""
    details: dict[RemovalCause, str] = {
        "retention_time": f"retention_ms is {retention_ms}",
        "retention_size": f"retention_bytes is {retention_bytes}",
    }
    for place, (segment_end, cause) in enumerate(outlived):
        is_last = place + 1 == len(outlived) or outlived[place + 1].cause != cause
        run_end = min(segment_end, end_offset)
        if is_last and first_offset < run_end:
            yield Removal(
                first_offset=first_offset,
                end_offset=run_end,
                cause=cause,
                at_ms=now_ms,
                detail=details[cause],
            )
            first_offset = run_end
