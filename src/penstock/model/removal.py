"""What is gone and why: offsets that left a partition, topics that were deleted.

Facts for whoever misses messages. Not the removing (`storage`, `broker.topics.topics`), and no
sentence for people: `storage.log.removals` makes those. The invariant: an entry speaks of nothing
but what is gone; what no entry speaks of may be gone too, since only the latest are remembered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

RemovalCause = Literal["retention_time", "retention_size", "deleted", "truncated"]
REMOVAL_CAUSES: Final[tuple[RemovalCause, ...]] = get_args(RemovalCause)


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Offsets of one partition that are gone: `first_offset` up to, not including, `end_offset`.

    Those that were "truncated" stood at the log's end and are given to other messages since; the
    others stood at its beginning.
    """

    first_offset: int
    end_offset: int
    cause: RemovalCause
    at_ms: int
    detail: str
    """The setting or the event behind it, in words: "retention_ms is 60000"."""


class DeletedPartition(NamedTuple):
    """What a partition of a deleted topic held: `start_offset` up to, not including, the end."""

    partition: int
    start_offset: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedTopic:
    """A topic as it was when it was deleted. A partition that was offline then is not listed."""

    name: str
    topic_id: str
    at_ms: int
    partitions: tuple[DeletedPartition, ...]
